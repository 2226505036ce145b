package fast

import (
	"testing"
	"unsafe"

	"github.com/tokenbucket-go/ratelimit/core/adapter"
)

// A store may keep a key for longer than the request, whose buffer the next one
// on the connection overwrites.
func TestKeysOfEveryFunctionAreCopied(t *testing.T) {
	buffer := []byte("alice")
	view := func() (string, error) { return unsafe.String(&buffer[0], len(buffer)), nil }
	for name, key := range map[string]func(int) (string, error){
		"a user's function":         func(int) (string, error) { return view() },
		"a function on an exchange": adapter.Adapt(func(adapter.Request) (string, error) { return view() }, func(int) adapter.Request { return nil }),
	} {
		copy(buffer, "alice")
		got, err := CopyKey(key)(0)
		if err != nil {
			t.Fatal(err)
		}
		if copy(buffer, "mallo"); got != "alice" {
			t.Errorf("%s: the key has become %q", name, got)
		}
	}
}
