package core

import (
	"crypto/sha256"
	"encoding/hex"
	"strings"
)

const (
	// maxKey is the longest key kept as it is.
	maxKey = 128
	// hashedKey begins the key that stands in for a longer one.
	hashedKey = "sha256:"
)

func hashKey(key string) string {
	sum := sha256.Sum256([]byte(key))
	return hashedKey + hex.EncodeToString(sum[:])
}

// JoinKey makes one key of several parts, injectively: different parts never make the same key,
// whatever bytes they hold, because every ':' and '%' in a part is percent-encoded and the parts are
// joined by ':'. Use it in key functions of your own, with a first part that says what is named:
//
//	core.JoinKey("user", tenant, id)
func JoinKey(parts ...string) string {
	n := len(parts)
	for _, p := range parts {
		n += len(p)
	}
	var b strings.Builder
	b.Grow(n)
	for i, p := range parts {
		if i > 0 {
			b.WriteByte(':')
		}
		escape(&b, p, ":%")
	}
	return b.String()
}

// escape percent-encodes the bytes of s that are in special.
func escape(b *strings.Builder, s, special string) {
	for {
		i := strings.IndexAny(s, special)
		if i < 0 {
			b.WriteString(s)
			return
		}
		b.WriteString(s[:i])
		percent(b, s[i])
		s = s[i+1:]
	}
}

// percent writes c percent-encoded.
func percent(b *strings.Builder, c byte) {
	const digits = "0123456789ABCDEF"
	b.WriteByte('%')
	b.WriteByte(digits[c>>4])
	b.WriteByte(digits[c&15])
}

// redisKey is the Redis key of a policy's bucket: the prefix as it is, then policy and key joined by
// ':', which is percent-encoded in policies. So are braces, that no client can choose its Cluster slot,
// and a '%' that begins what reads as one of these, so that different buckets have different keys.
func redisKey(prefix, policy, key string) string {
	var b strings.Builder
	b.Grow(len(prefix) + len(policy) + 1 + len(key))
	b.WriteString(prefix)
	escape(&b, policy, ":{}%")
	b.WriteByte(':')
	for i := range len(key) {
		switch c := key[i]; {
		case c == '{', c == '}', c == '%' && encoded(key[i+1:]):
			percent(&b, c)
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
