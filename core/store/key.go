package store

import (
	"strings"

	"github.com/tokenbucket-go/ratelimit/core/internal/printable"
)

// hashed is the prefix of a key that replaces a longer one.
const hashed = "sha256:"

// MaxKey is the length of the longest key that stores get, in bytes.
const MaxKey = 128

// Key returns the key under which stores keep the bucket of a limiter's key:
// key itself, or "sha256:" and its SHA-256 if it is longer than MaxKey or
// begins with "sha256:", so that two keys never become one. Tools need it to
// tell which of the keys in a store is a client's, and
// core.Limiter.WithStoredKeys takes such keys.
func Key(key string) string {
	if len(key) <= MaxKey && !strings.HasPrefix(key, hashed) {
		return key
	}
	return hashed + printable.Digest(key)
}
