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

// hashKey is what stands in for a long key.
func hashKey(key string) string { return hashedKey + digest(key) }

// digest is the SHA-256 of s in hexadecimal. However long s is, it is not copied as a whole.
func digest(s string) string {
	h := sha256.New()
	var block [1024]byte
	for s != "" {
		n := copy(block[:], s)
		h.Write(block[:n])
		s = s[n:]
	}
	return hex.EncodeToString(h.Sum(nil))
}

// hashedPart begins what stands in for a long part. No other part has these bytes: its own '%' are encoded.
const hashedPart = "%sha256="

// JoinKey makes one key of several parts, injectively: different parts never make the same key,
// whatever bytes they hold, because every ':' and '%' in a part is percent-encoded and the parts are
// joined by ':'. Use it in key functions of your own, with a first part that says what is named:
//
//	core.JoinKey("user", tenant, id)
//
// A part of more than 128 bytes counts by its SHA-256, as a key of more than 128 bytes does: JoinKey reads it once
// and makes no more than 400 bytes of it, so clients can't make keys that are expensive.
func JoinKey(parts ...string) string {
	n := len(parts)
	for _, p := range parts {
		n += partLen(p)
	}
	var b strings.Builder
	b.Grow(n)
	for i, p := range parts {
		if i > 0 {
			b.WriteByte(':')
		}
		if len(p) > maxKey {
			b.WriteString(hashedPart)
			b.WriteString(digest(p))
			continue
		}
		escape(&b, p, ":%")
	}
	return b.String()
}

// partLen is how many bytes a part takes in a joined key.
func partLen(p string) int {
	if len(p) > maxKey {
		return len(hashedPart) + 2*sha256.Size
	}
	return len(p) + 2*(strings.Count(p, ":")+strings.Count(p, "%"))
}

// escape percent-encodes the bytes of s that are in special.
func escape(b *strings.Builder, s, special string) {
	plain := 0 // where the bytes begin that are not written yet
	for i := range len(s) {
		if strings.IndexByte(special, s[i]) >= 0 {
			b.WriteString(s[plain:i])
			percent(b, s[i])
			plain = i + 1
		}
	}
	b.WriteString(s[plain:])
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
