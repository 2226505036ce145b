package redisstore

import (
	"strings"

	"github.com/tokenbucket-go/ratelimit/core/internal/percent"
)

// endOfPrefix follows a prefix whose end could be taken for a policy's name: see keyPrefix.
const endOfPrefix = "%:"

// keyPrefix returns how the keys of a store with a prefix begin, so that no two prefixes share a key. Without it the prefix
// "app:" with the policy "v2" and the prefix "app:v2:" would share some. A prefix whose one colon is its end, such as
// "ratelimit:", stays as it is. Every other is followed by "%:", which redisKey never writes behind it.
func keyPrefix(prefix string) string {
	if strings.IndexByte(prefix, ':') == len(prefix)-1 && prefix != "" && !strings.HasSuffix(prefix, endOfPrefix) {
		return prefix
	}
	return prefix + endOfPrefix
}

// redisKey returns the Redis key of a policy's bucket: prefix, which must come from keyPrefix, then policy, ':' and key.
// Different buckets have different Redis keys:
//
//   - ':' is percent-encoded in the policy, so the first one behind the prefix ends it
//   - braces are percent-encoded, so no client can choose its Cluster slot
//   - a '%' is percent-encoded in the policy, and in the key where it would read as one of these or as the end of a prefix
func redisKey(prefix, policy, key string) string {
	var b strings.Builder
	b.Grow(len(prefix) + len(policy) + 1 + len(key))
	b.WriteString(prefix)
	percent.Escape(&b, policy, ":{}%")
	b.WriteByte(':')
	for i := range len(key) {
		switch c := key[i]; {
		case c == '{', c == '}', c == '%' && encoded(key[i+1:]):
			percent.Write(&b, c)
		default:
			b.WriteByte(c)
		}
	}
	return b.String()
}

// encoded reports whether a '%' in front of s would read as an encoded '{', '}' or '%', or as the end of a prefix.
func encoded(s string) bool {
	return strings.HasPrefix(s, "7B") || strings.HasPrefix(s, "7D") || strings.HasPrefix(s, "25") || strings.HasPrefix(s, ":")
}
