package redisstore

import (
	"strings"
	"testing"

	"github.com/tokenbucket-go/ratelimit/core"
	"pgregory.net/rapid"
)

// A Redis key must decode to the key that is limited, and must hold no braces, which would select its Cluster slot.
func TestRedisKeyCanBeReadBack(t *testing.T) {
	decode := strings.NewReplacer("%7B", "{", "%7D", "}", "%25", "%")
	check := func(t rapid.TB, key string) {
		got := redisKey("p:", "policy", key)
		if strings.ContainsAny(got, "{}") {
			t.Fatalf("redisKey of %q is %q, which has braces", key, got)
		}
		if read := decode.Replace(strings.TrimPrefix(got, "p:policy:")); read != key {
			t.Fatalf("redisKey of %q is %q, which reads as %q", key, got, read)
		}
	}
	rapid.Check(t, func(t *rapid.T) {
		check(t, rapid.StringOfN(rapid.SampledFrom([]rune("%{}2573BDA:a")), 0, 12, -1).Draw(t, "key"))
	})
	if got, want := redisKey("p:", "a:b", core.JoinKey("route:/x", "y")), "p:a%3Ab:route%3A/x:y"; got != want {
		t.Errorf("what JoinKey encoded stays as it is: %q, want %q", got, want)
	}
}
