package printable_test

import (
	"net/url"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/tokenbucket-go/ratelimit/core/internal/printable"
)

// What Percent writes has none of the special bytes, and net/url decodes it.
func TestEscapedTextHasNoSpecialBytesAndDecodes(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := string(rapid.SliceOf(rapid.Byte()).Draw(t, "text"))
		var b strings.Builder
		printable.Percent(&b, s, ":{}%")
		if i := strings.IndexAny(strings.ReplaceAll(b.String(), "%", ""), ":{}"); i >= 0 {
			t.Fatalf("%q is written as %q, which has a special byte", s, b.String())
		}
		if decoded, err := url.PathUnescape(b.String()); err != nil || decoded != s {
			t.Fatalf("%q is written as %q, which reads as %q, %v", s, b.String(), decoded, err)
		}
	})
}
