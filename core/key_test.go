package core_test

import (
	"bytes"
	"slices"
	"testing"

	"github.com/tokenbucket-go/ratelimit/core"
)

// parts reads a list of parts from fuzzed bytes: 0 ends a part, 1 escapes.
func parts(b []byte) []string {
	list := []string{""}
	for i := 0; i < len(b); i++ {
		switch {
		case b[i] == 0:
			list = append(list, "")
		case b[i] == 1 && i+1 < len(b):
			i++
			list[len(list)-1] += string(b[i : i+1])
		default:
			list[len(list)-1] += string(b[i : i+1])
		}
	}
	return list
}

// FuzzJoinKeyIsInjective leaves out the list of no parts, which joins like that of one empty part.
func FuzzJoinKeyIsInjective(f *testing.F) {
	nasty := []string{"", "\x00", "\x00\x00", "a:b\x00c", "a\x00b:c", "a\x00b\x00c", "a%3Ab\x00c", "a%3A\x00b", "%\x003A", "%3A", ":", ":\x00",
		"\x00:", "%253A", "\x01\x00", "\xff\x00\xfe", "%3a", "{a}\x00b"}
	for _, a := range nasty {
		for _, b := range nasty {
			f.Add([]byte(a), []byte(b))
		}
	}
	f.Fuzz(func(t *testing.T, a, b []byte) {
		one, other := parts(a), parts(b)
		if same := core.JoinKey(one...) == core.JoinKey(other...); same != slices.Equal(one, other) {
			t.Errorf("JoinKey must be injective: %q and %q join to %q and %q", one, other, core.JoinKey(one...), core.JoinKey(other...))
		}
		// The same bytes cut elsewhere are what a careless join mistakes.
		moved := parts(bytes.ReplaceAll(a, []byte{0}, []byte{':'}))
		if !slices.Equal(one, moved) && core.JoinKey(one...) == core.JoinKey(moved...) {
			t.Errorf("JoinKey must be injective: %q and %q both join to %q", one, moved, core.JoinKey(one...))
		}
	})
}

func TestJoinKeyIsReadable(t *testing.T) {
	for _, c := range []struct {
		parts []string
		want  string
	}{
		{[]string{"user", "acme", "42"}, "user:acme:42"},
		{[]string{"a:b", "c"}, "a%3Ab:c"},
		{[]string{"100%"}, "100%25"},
		{[]string{""}, ""},
		{[]string{"", ""}, ":"},
		{nil, ""},
	} {
		if got := core.JoinKey(c.parts...); got != c.want {
			t.Errorf("JoinKey(%q) = %q, want %q: only ':' and '%%' are encoded", c.parts, got, c.want)
		}
	}
}
