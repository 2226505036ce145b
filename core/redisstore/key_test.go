package redisstore

import (
	"strings"
	"testing"
	"unicode"

	"github.com/tokenbucket-go/ratelimit/core"
	"pgregory.net/rapid"
)

// A Redis key must decode to the key that is limited, and must hold no braces,
// which would select its Cluster slot.
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
		if b, ok := bucketOf("p:", got); key != "" && (!ok || b != (Bucket{"policy", key})) {
			t.Fatalf("bucketOf of %q, the key %q, is %q, %v", got, key, b, ok)
		}
	}
	rapid.Check(t, func(t *rapid.T) {
		check(t, rapid.StringOfN(rapid.SampledFrom([]rune("%{}2573BDA:a")), 0, 12, -1).Draw(t, "key"))
	})
	if b, ok := bucketOf("p:", redisKey("p:", "a:{b}%", "k")); !ok || b != (Bucket{"a:{b}%", "k"}) {
		t.Errorf("bucketOf of a policy with special bytes is %q, %v", b, ok)
	}
	if got, want := redisKey("p:", "a:b", core.JoinKey("a:b", "c|d")+"|ip:1"), "p:a%3Ab:a%3Ab:c%7Cd|ip:1"; got != want {
		t.Errorf("what JoinKey encoded stays as it is: %q, want %q", got, want)
	}
}

// Different buckets have different Redis keys, whatever the prefixes, policies
// and keys: no store decides on another's bucket.
func TestNoTwoBucketsShareARedisKey(t *testing.T) {
	type bucketOf struct{ prefix, policy, key string }
	text := func(least int) *rapid.Generator[string] {
		return rapid.OneOf(
			rapid.Map(rapid.SliceOfN(rapid.SampledFrom([]string{"app", ":", "v2", "%", "%:", "%25", "25", "3A", "7B", "{", "}", "login", "k"}), least, 6),
				func(parts []string) string { return strings.Join(parts, "") }),
			rapid.StringOfN(rapid.RuneFrom(nil, unicode.ASCII_Hex_Digit), least, 3, -1),
			rapid.Map(rapid.SliceOfN(rapid.Byte(), least, 4), func(b []byte) string { return string(b) }),
		)
	}
	rapid.Check(t, func(t *rapid.T) {
		seen := make(map[string]bucketOf)
		for range 60 {
			b := bucketOf{text(0).Draw(t, "prefix"), text(1).Draw(t, "policy"), text(1).Draw(t, "key")}
			inRedis := redisKey(keyPrefix(b.prefix), b.policy, b.key)
			if other, taken := seen[inRedis]; taken && other != b {
				t.Fatalf("%+q and %+q are both %q in Redis", other, b, inRedis)
			}
			seen[inRedis] = b
			// The same text, cut at every other place.
			for at := range inRedis {
				if !strings.HasPrefix(inRedis, b.prefix) {
					t.Fatalf("the key %q does not begin with the prefix %q", inRedis, b.prefix)
				}
				policy, key, ok := strings.Cut(inRedis[at:], ":")
				again := bucketOf{inRedis[:at], policy, key}
				if ok && policy != "" && key != "" && again != b && redisKey(keyPrefix(again.prefix), policy, key) == inRedis {
					t.Fatalf("%+q and %+q are both %q in Redis", again, b, inRedis)
				}
			}
		}
	})
}

// Keys of usual prefixes are what they have always been: their buckets survive
// an update.
func TestUsualPrefixesStayAsTheyAre(t *testing.T) {
	for prefix, want := range map[string]string{
		defaults().prefix: "ratelimit:api:ip:192.0.2.1",
		"shop:":           "shop:api:ip:192.0.2.1",
		"{limits}:":       "{limits}:api:ip:192.0.2.1",
		"shop:limits:":    "shop:limits:%:api:ip:192.0.2.1",
		"shop":            "shop%:api:ip:192.0.2.1",
		"":                "%:api:ip:192.0.2.1",
		"shop%:":          "shop%:%:api:ip:192.0.2.1",
	} {
		if got := redisKey(keyPrefix(prefix), "api", "ip:192.0.2.1"); got != want {
			t.Errorf("the prefix %q makes %q, want %q", prefix, got, want)
		}
	}
}
