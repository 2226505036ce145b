package core

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"strings"

	"github.com/tokenbucket-go/ratelimit/core/internal/percent"
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
		percent.Escape(&b, p, ":%")
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

// keyed is an error for an empty key: whoever has none would share a bucket with all others without.
func keyed(key string) error {
	if key == "" {
		return fmt.Errorf("%w: it is empty", ErrNoKey)
	}
	return nil
}

// boundedKey keeps keys short: one longer than 128 bytes is replaced by its SHA-256. So is one that
// looks like such a replacement, so that no two keys are ever taken for each other.
func boundedKey(key string) string {
	if len(key) <= maxKey && !strings.HasPrefix(key, hashedKey) {
		return key
	}
	return hashKey(key)
}
