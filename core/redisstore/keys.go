package redisstore

import (
	"strings"

	"github.com/tokenbucket-go/ratelimit/core/internal/printable"
	"github.com/tokenbucket-go/ratelimit/core/store"
)

// endOfPrefix ends a prefix that could be taken for another prefix and a
// policy's name: see keyPrefix.
const endOfPrefix = "%:"

// keyPrefix returns how all keys of a store with this prefix begin. No two
// prefixes share a key. A prefix with a single colon, at its end, stays as it
// is. Any other is followed by "%:", which redisKey writes nowhere: "app:v2:"
// becomes "app:v2:%:", because "app:" with the policy "v2" has "app:v2:".
func keyPrefix(prefix string) string {
	if strings.IndexByte(prefix, ':') == len(prefix)-1 && prefix != "" && !strings.HasSuffix(prefix, endOfPrefix) {
		return prefix
	}
	return prefix + endOfPrefix
}

// redisKey returns the Redis key of a policy's bucket: prefix, which must come
// from keyPrefix, then policy, ':' and key. Example: the policy "a:b" and the
// key "x{1}" with the prefix "ratelimit:" are "ratelimit:a%3Ab:x%7B1%7D".
// Different buckets have different Redis keys:
//
//   - ':' is percent-encoded in the policy, so the first one behind the prefix
//     ends the policy
//   - braces are percent-encoded, so no client can choose the Cluster hash slot
//     of its key
//   - '%' is percent-encoded in the policy, and in the key if it would read as
//     an encoded byte or as the end of a prefix
func redisKey(prefix, policy, key string) string {
	var b strings.Builder
	b.Grow(len(prefix) + len(policy) + 1 + len(key))
	b.WriteString(prefix)
	printable.Percent(&b, policy, specialInPolicy)
	b.WriteByte(':')
	for i := range len(key) {
		switch c := key[i]; {
		case c == '{', c == '}', c == '%' && encoded(key[i+1:]):
			printable.PercentByte(&b, c)
		default:
			b.WriteByte(c)
		}
	}
	return b.String()
}

// holdsKey returns the Redis key of the holds of a bucket whose Redis key is
// key. It is in the same hash slot of a Cluster, because the braces of a prefix
// are those of a hash tag: see bracesAreTag.
func holdsKey(prefix, key string) string { return prefix + endOfPrefix + "{" + key + "}" }

// bracesAreTag reports whether a prefix has no braces, or a hash tag, which
// decides the hash slot of all keys. With half a hash tag, a key and that of its
// holds would have different ones.
func bracesAreTag(prefix string) bool {
	_, tag, found := strings.Cut(prefix, "{")
	if !found {
		return !strings.Contains(prefix, "}")
	}
	return strings.IndexByte(tag, '}') > 0
}

// specialInPolicy are the bytes that are percent-encoded in a policy's name.
const specialInPolicy = ":{}%"

func encodedPolicy(policy string) string {
	var b strings.Builder
	printable.Percent(&b, policy, specialInPolicy)
	return b.String()
}

// encoded reports whether '%' and s would read as an encoded '{', '}' or '%',
// or as the end of a prefix.
func encoded(s string) bool {
	return strings.HasPrefix(s, "7B") || strings.HasPrefix(s, "7D") || strings.HasPrefix(s, "25") || strings.HasPrefix(s, ":")
}

// Bucket names a bucket in Redis.
type Bucket struct {
	Policy string // the policy's name
	Key    string // the limiter's key, as the store has it: see [store.Key]
}

// bucketOf is the inverse of redisKey. ok is false for a key that redisKey did
// not write behind the prefix.
func bucketOf(prefix, redis string) (b Bucket, ok bool) {
	name, ok := strings.CutPrefix(redis, prefix)
	if !ok {
		return b, false
	}
	policy, key, ok := strings.Cut(name, ":")
	if !ok || key == "" {
		return b, false
	}
	b = Bucket{decodedPolicy.Replace(policy), decodedKey.Replace(key)}
	return b, redisKey(prefix, b.Policy, b.Key) == redis
}

var (
	decodedPolicy = strings.NewReplacer("%3A", ":", "%7B", "{", "%7D", "}", "%25", "%")
	decodedKey    = strings.NewReplacer("%7B", "{", "%7D", "}", "%25", "%")
)

// oneBucket reports whether requests are all on one bucket, so that no two
// servers have to decide them.
func oneBucket(requests []store.Request) bool {
	for i := range requests {
		if !requests[i].SameBucket(&requests[0]) {
			return false
		}
	}
	return true
}
