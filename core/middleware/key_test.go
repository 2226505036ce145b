package middleware_test

import (
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/stretchr/testify/assert"

	"github.com/tokenbucket-go/ratelimit/core"
	"github.com/tokenbucket-go/ratelimit/core/internal/printable"
	"github.com/tokenbucket-go/ratelimit/core/middleware"
)

// joined returns the key that Join makes of keys.
func joined(t rapid.TB, keys []string) string {
	functions := make([]func(*call) (string, error), len(keys))
	for i, key := range keys {
		functions[i] = func(*call) (string, error) { return key, nil }
	}
	key, err := middleware.Join[*call](functions...)(new(call))
	if err != nil {
		t.Fatalf("Join of %q: %v", keys, err)
	}
	return key
}

// Different lists of keys never make the same joined key, whatever the keys
// are: those of extractors, of JoinKey and of Join, and any other string.
func TestJoinIsInjective(t *testing.T) {
	long := strings.Repeat("x", 600)
	pieces := rapid.SampledFrom([]string{
		"ann", "a", ":", "|", "%", "%7C", "%7c", "%25", "%3A", "%=", "%=sha256:", "%sha256=", "sha256:", "=",
		"25", "7C", "\x00", "ip:192.0.2.1", "ann|ip:192.0.2.1", long, strings.Repeat("|", 300),
		"%=sha256:" + printable.Digest(long), "%sha256=" + printable.Digest(long), printable.Digest(long),
	})
	text := rapid.OneOf(
		rapid.Map(rapid.SliceOfN(pieces, 1, 5), func(p []string) string { return strings.Join(p, "") }),
		rapid.Map(rapid.SliceOfN(rapid.Byte(), 1, 5), func(b []byte) string { return string(b) }),
		rapid.Map(rapid.SliceOfN(pieces, 2, 4), func(p []string) string { return core.JoinKey(p...) }),
	)
	rapid.Check(t, func(t *rapid.T) {
		seen := make(map[string][]string)
		check := func(keys []string) string {
			key := joined(t, keys)
			if other, taken := seen[key]; taken && !slices.Equal(keys, other) {
				t.Fatalf("Join of %q and Join of %q are both %q", keys, other, key)
			}
			if n := strings.Count(key, "|"); n != len(keys)-1 {
				t.Fatalf("Join of %d keys, %q, is %q, with %d bars", len(keys), keys, key, n)
			}
			seen[key] = keys
			return key
		}
		keys := rapid.SliceOfN(text, 1, 4).Draw(t, "keys")
		for range 5 {
			key := check(keys)
			check([]string{key})
			check([]string{key, key})
			check(strings.Split(key, "|")) // the parts, as keys of their own
			for i, k := range keys {       // and one of them cut at another place
				if a, b, found := strings.Cut(k, "|"); found && a != "" && b != "" {
					check(slices.Concat(keys[:i:i], []string{a, b}, keys[i+1:]))
				}
			}
			next := rapid.SliceOfN(rapid.OneOf(text, rapid.SampledFrom(append(strings.Split(key, "|"), key))), 1, 4).Draw(t, "next")
			if slices.Contains(next, "") {
				continue
			}
			keys = next
		}
	})
}

func TestJoinTakesKeysOfExtractorsAndOfJoinKeyAsTheyAre(t *testing.T) {
	for _, key := range []string{
		"ip:2001:db8::/64", "route:/items/:id", "x-api-key:50%25%7C", "x-api-key:%sha256=" + strings.Repeat("0", 64),
		"sha256:x", "ann", "{a} b\xff",
		core.JoinKey("user", "a:b|c%", strings.Repeat("x", 200)), strings.Repeat("x", 512),
	} {
		assert.Equal(t, key+"|"+key, joined(t, []string{key, key}))
	}
}

// A request with a key of a megabyte costs no more memory than others.
func TestJoinOfAHugeKeyIsShort(t *testing.T) {
	for _, huge := range []string{strings.Repeat("|", 1<<20), strings.Repeat("%", 1<<20), strings.Repeat("a", 1<<20)} {
		assert.Regexp(t, `^%=sha256:[0-9a-f]{64}\|a$`, joined(t, []string{huge, "a"}))
	}
}
