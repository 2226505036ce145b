package redisstore

import (
	"strings"
	"testing"
	"unicode"

	"pgregory.net/rapid"

	"github.com/tokenbucket-go/ratelimit/core"
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

// In a Redis Cluster the text between a key's first '{' and the next '}'
// selects its slot. Keys of usual prefixes are what they have always been: their
// buckets survive an update.
func TestKeysCannotChooseTheirClusterSlot(t *testing.T) {
	for _, c := range []struct{ prefix, policy, key, want string }{
		{defaults().prefix, "api", "ip:192.0.2.1", "ratelimit:api:ip:192.0.2.1"},
		{"shop:", "api", "{user}", "shop:api:%7Buser%7D"},
		{"shop:", "a:b", "c:d", "shop:a%3Ab:c:d"},
		{"shop:", "api", "100%", "shop:api:100%"},
		{"shop:", "api", "%7Buser%7D", "shop:api:%257Buser%257D"},
		{"shop:", "api", "a\x00\n\xff", "shop:api:a\x00\n\xff"},
		{"{api}", "}{", "k", "{api}%:%7D%7B:k"},
		{"{limits}:", "api", "{user}", "{limits}:api:%7Buser%7D"},
		{"{shop:}:", "api", "{user}", "{shop:}:%:api:%7Buser%7D"},
		{"shop:limits:", "api", "k", "shop:limits:%:api:k"},
		{"shop", "api", "k", "shop%:api:k"},
		{"", "api", "k", "%:api:k"},
		{"shop%:", "api", "k", "shop%:%:api:k"},
	} {
		if got := redisKey(keyPrefix(c.prefix), c.policy, c.key); got != c.want {
			t.Errorf("prefix %q, policy %q, key %q: the Redis key is %q, want %q", c.prefix, c.policy, c.key, got, c.want)
		}
	}
}

// With half a hash tag, a key and that of its holds would be in different slots.
func TestBracesOfAPrefixAreAHashTag(t *testing.T) {
	for prefix, want := range map[string]bool{"": true, "a:": true, "{a}:": true, "{a}b{": true, "{a": false, "a}": false, "{}": false} {
		if bracesAreTag(prefix) != want {
			t.Errorf("the prefix %q: %v, want %v", prefix, !want, want)
		}
	}
}
