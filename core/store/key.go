package store

import "github.com/tokenbucket-go/ratelimit/core/internal/printable"

// MaxKey is the length of the longest key that stores get, in bytes.
const MaxKey = 128

// Key returns the key under which stores keep the bucket of a limiter's key:
// key itself, or "sha256:" and its SHA-256 if it is longer than MaxKey. So what
// a store shows of a long key names its bucket as the key does: Key of it is
// itself.
func Key(key string) string {
	if len(key) <= MaxKey {
		return key
	}
	return "sha256:" + printable.Digest(key)
}
