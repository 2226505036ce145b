package core_test

import (
	"bytes"
	"runtime"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/tokenbucket-go/ratelimit/core"
)

// parts reads a list of parts from fuzzed bytes: a 0 ends a part, and a 1
// escapes the next byte.
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

// FuzzJoinKeyIsInjective checks that different parts make different keys. The
// empty list is left out: it makes the same key as one empty part.
func FuzzJoinKeyIsInjective(f *testing.F) {
	nasty := []string{"", "\x00", "\x00\x00", "a:b\x00c", "a\x00b:c", "a\x00b\x00c", "a%3Ab\x00c", "a%3A\x00b", "%\x003A", "%3A", ":", ":\x00",
		strings.Repeat("a", 128), strings.Repeat("a", 129), strings.Repeat(":", 200), "%sha256=" + strings.Repeat("0", 64),
		"\x00:", "%253A", "\x01\x00", "\xff\x00\xfe", "%3a", "{a}\x00b", "a|b", "a%7Cb", "a\x00b|c"}
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
		// A join that does not escape confuses the same bytes cut at other
		// places.
		moved := parts(bytes.ReplaceAll(a, []byte{0}, []byte{':'}))
		if !slices.Equal(one, moved) && core.JoinKey(one...) == core.JoinKey(moved...) {
			t.Errorf("JoinKey must be injective: %q and %q both join to %q", one, moved, core.JoinKey(one...))
		}
	})
}

func TestJoinKeyEncodesOnlyColonPercentAndBar(t *testing.T) {
	for _, c := range []struct {
		parts []string
		want  string
	}{
		{[]string{"user", "acme", "42"}, "user:acme:42"},
		{[]string{"a:b", "c"}, "a%3Ab:c"},
		{[]string{"100%"}, "100%25"},
		{[]string{"a|b", "c"}, "a%7Cb:c"},
		{[]string{""}, ""},
		{[]string{"", ""}, ":"},
		{nil, ""},
	} {
		if got := core.JoinKey(c.parts...); got != c.want {
			t.Errorf("JoinKey(%q) = %q, want %q: only ':', '%%' and '|' are encoded", c.parts, got, c.want)
		}
	}
}

// A request with a key of a megabyte costs no more memory than others.
func TestJoinKeyOfHugePartsIsCheap(t *testing.T) {
	const size = 1 << 20
	for name, part := range map[string]string{
		"colons": strings.Repeat(":", size), "percents": strings.Repeat("%", size), "letters": strings.Repeat("a", size), "3A": strings.Repeat("%3A", size/3),
	} {
		for depth := range 4 {
			key := ""
			allocated := bytesAllocated(func() {
				key = core.JoinKey("header", "x", part)
				for range depth {
					key = core.JoinKey("a", key, key)
				}
			})
			assert.LessOrEqual(t, len(key), 1000, "%s: the key is short, nested %d times", name, depth)
			assert.Less(t, allocated, uint64(16<<10), "%s: a part of 1 MB costs no memory of its size, nested %d times", name, depth)
		}
		assert.NotEqual(t, core.JoinKey(part), core.JoinKey(part+":"), "%s: one byte more is another key", name)
		assert.NotEqual(t, core.JoinKey("a", part), core.JoinKey("a", core.JoinKey(part)), "%s: the replacement of a part is itself another part", name)
	}
	short := strings.Repeat(":", 128) // the longest part that is not replaced
	assert.EqualValues(t, 1, testing.AllocsPerRun(100, func() { core.JoinKey("a", short, short) }), "a key is built in one piece")
}

// bytesAllocated returns how many bytes f allocates, including what the runtime
// allocates in the meantime.
func bytesAllocated(f func()) uint64 {
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	f()
	runtime.ReadMemStats(&after)
	return after.TotalAlloc - before.TotalAlloc
}
