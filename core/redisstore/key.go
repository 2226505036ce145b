package redisstore

import (
	"strings"

	"github.com/tokenbucket-go/ratelimit/core/internal/percent"
)

// redisKey is the Redis key of a policy's bucket: the prefix as it is, then policy and key joined by ':', which is
// percent-encoded in policies. Braces are encoded too, so no client can choose its Cluster slot. So is a '%' that begins
// what reads as one of these, so different buckets have different keys.
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

// encoded reports whether a '%' before s would read as an encoded '{', '}' or '%'.
func encoded(s string) bool {
	return strings.HasPrefix(s, "7B") || strings.HasPrefix(s, "7D") || strings.HasPrefix(s, "25")
}
