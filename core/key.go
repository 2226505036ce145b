package core

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"strings"

	"github.com/tokenbucket-go/ratelimit/core/internal/printable"
)

const (
	// maxKey is the length of the longest key that is stored unchanged, in bytes.
	maxKey = 128
	// hashedKey is the prefix of a key that replaces a longer one.
	hashedKey = "sha256:"
)

// hashKey returns the key that replaces a long one.
func hashKey(key string) string { return hashedKey + digest(key) }

// digest returns the SHA-256 of s in hexadecimal. It copies s block by block, so that a long s costs no allocation.
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

// hashedPart is the prefix of what replaces a long part. No other part has these bytes, because its '%' are encoded.
const hashedPart = "%sha256="

// JoinKey joins parts into one key. Different parts never make the same key, whatever bytes they hold: JoinKey
// percent-encodes every ':' and '%' in a part and joins the parts with ':'. Use it in your own key functions, with a
// first part that says what the key names:
//
//	core.JoinKey("user", tenant, id)
//
// A part of more than 128 bytes becomes "%sha256=" and its SHA-256; limiters replace a whole key of more than 128 bytes by
// "sha256:" and its SHA-256. JoinKey reads each part once and makes at most 400 bytes of it, so clients can't make expensive keys.
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
		printable.Percent(&b, p, ":%")
	}
	return b.String()
}

// partLen returns how many bytes a part takes in a joined key.
func partLen(p string) int {
	if len(p) > maxKey {
		return len(hashedPart) + 2*sha256.Size
	}
	return len(p) + 2*(strings.Count(p, ":")+strings.Count(p, "%"))
}

// checkKey returns ErrNoKey if key is empty: all clients without a key would share one bucket.
func checkKey(key string) error {
	if key == "" {
		return fmt.Errorf("%w: it is empty", ErrNoKey)
	}
	return nil
}

// StoredKey returns the key under which stores keep the bucket of a limiter's key: key itself, or "sha256:" and its SHA-256 if it has
// more than 128 bytes or begins with "sha256:". Tools need it to tell which of the keys in a store is a client's, and
// [Limiter.WithStoredKeys] takes such keys.
func StoredKey(key string) string { return boundedKey(key) }

// boundedKey returns the key that stores use: key itself, or its SHA-256 if it is longer than 128 bytes. It also hashes
// a key that looks like such a hash, so that two keys never become one.
func boundedKey(key string) string {
	if len(key) <= maxKey && !strings.HasPrefix(key, hashedKey) {
		return key
	}
	return hashKey(key)
}

// shortKey returns a key as stores have it: key itself, or its SHA-256 if no store can have it.
func shortKey(key string) string {
	if len(key) <= maxKey {
		return key
	}
	return hashKey(key)
}
