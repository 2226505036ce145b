package field_test

import (
	"testing"

	"github.com/tokenbucket-go/ratelimit/core/internal/field"
)

// The grammar of RFC 9110 is: token = 1*tchar.
func TestValidNamesAreTokens(t *testing.T) {
	const tchar = "!#$%&'*+-.^_`|~0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"
	in := make(map[byte]bool)
	for i := range len(tchar) {
		in[tchar[i]] = true
	}
	for c := range 256 {
		if name := "a" + string([]byte{byte(c)}); field.ValidName(name) != in[byte(c)] {
			t.Errorf("Valid(%q) = %v, want %v", name, !in[byte(c)], in[byte(c)])
		}
	}
	if field.ValidName("") {
		t.Error("a name has at least one character")
	}
}
