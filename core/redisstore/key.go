package redisstore

import (
	"strings"

	"github.com/tokenbucket-go/ratelimit/core/internal/percent"
)

// endOfPrefix ends a prefix that does not end by itself: see keyPrefix.
const endOfPrefix = "%:"

// keyPrefix returns how the keys of a store with a prefix begin. No two prefixes share a key: "app:" and "app:v2:" would, with
// the policies "v2" and "login". So only a prefix whose one colon is its end stays as it is, such as "ratelimit:". Every other
// gets an end that nothing behind it holds.
func keyPrefix(prefix string) string {
	if strings.IndexByte(prefix, ':') == len(prefix)-1 && prefix != "" && !strings.HasSuffix(prefix, endOfPrefix) {
		return prefix
	}
	return prefix + endOfPrefix
}

// redisKey is the Redis key of a policy's bucket: the prefix, which must come from keyPrefix, then policy and key joined by
// ':', which is percent-encoded in policies. Braces are encoded too, so no client can choose its Cluster slot. So is a '%' that
// begins what reads as one of these, or as the end of a prefix. So different buckets have different keys.
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

// encoded reports whether a '%' before s would read as an encoded '{', '}' or '%', or as the end of a prefix.
func encoded(s string) bool {
	return strings.HasPrefix(s, "7B") || strings.HasPrefix(s, "7D") || strings.HasPrefix(s, "25") || strings.HasPrefix(s, ":")
}
