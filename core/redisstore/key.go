package redisstore

import (
	"strings"

	"github.com/tokenbucket-go/ratelimit/core/internal/printable"
)

// endOfPrefix ends a prefix that could be taken for another prefix and a policy's name: see keyPrefix.
const endOfPrefix = "%:"

// keyPrefix returns how all keys of a store with this prefix begin. No two prefixes share a key. A prefix with a single colon, at its
// end, stays as it is: "ratelimit:". Any other is followed by "%:": "app:v2:" becomes "app:v2:%:". Otherwise the prefix "app:" with
// the policy "v2" would have the same keys. redisKey writes no "%:" behind a prefix.
func keyPrefix(prefix string) string {
	if strings.IndexByte(prefix, ':') == len(prefix)-1 && prefix != "" && !strings.HasSuffix(prefix, endOfPrefix) {
		return prefix
	}
	return prefix + endOfPrefix
}

// redisKey returns the Redis key of a policy's bucket: prefix, which must come from keyPrefix, then policy, ':' and key. Example: the
// policy "a:b" and the key "x{1}" with the prefix "ratelimit:" are "ratelimit:a%3Ab:x%7B1%7D". Different buckets have different
// Redis keys:
//
//   - ':' is percent-encoded in the policy, so the first one behind the prefix ends the policy
//   - braces are percent-encoded, so no client can choose the Cluster hash slot of its key
//   - '%' is percent-encoded in the policy, and in the key if it would read as an encoded byte or as the end of a prefix
func redisKey(prefix, policy, key string) string {
	var b strings.Builder
	b.Grow(len(prefix) + len(policy) + 1 + len(key))
	b.WriteString(prefix)
	printable.Percent(&b, policy, ":{}%")
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

// encoded reports whether '%' and s would read as an encoded '{', '}' or '%', or as the end of a prefix.
func encoded(s string) bool {
	return strings.HasPrefix(s, "7B") || strings.HasPrefix(s, "7D") || strings.HasPrefix(s, "25") || strings.HasPrefix(s, ":")
}

// Bucket names a bucket in Redis.
type Bucket struct {
	Policy string // the policy's name
	Key    string // the limiter's key, as the store has it: see [core.StoredKey] and [core.Limiter.WithStoredKeys]
}

// bucketOf is the inverse of redisKey. ok is false for a key that redisKey did not write behind the prefix.
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
