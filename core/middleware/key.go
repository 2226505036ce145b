package middleware

import (
	"strings"

	"github.com/tokenbucket-go/ratelimit/core/internal/printable"
)

// maxPlain is the length of the longest key that Join takes as it is, in bytes.
// Extractors make no longer ones, unless their names are very long.
const maxPlain = 512

// joinKeys joins keys with '|'. Different lists never make the same key,
// whatever bytes they hold. A key that [isPlain] stays as it is: those of
// extractors and of core.JoinKey. Any other becomes "%=" and the key with '%'
// and '|' percent-encoded, or "%=sha256:" and its SHA-256 if it is long.
//
// So no part has a '|', and "%=" is in no plain key. What follows "%=" has a
// "%7C" or "%25", or it is a hash, which has neither.
func joinKeys(keys []string) string {
	n := len(keys)
	for _, key := range keys {
		n += min(len(key), maxPlain)
	}
	var b strings.Builder
	b.Grow(n)
	for i, key := range keys {
		if i > 0 {
			b.WriteByte('|')
		}
		switch {
		case isPlain(key):
			b.WriteString(key)
		case len(key) > maxPlain:
			b.WriteString("%=sha256:")
			b.WriteString(printable.Digest(key))
		default:
			b.WriteString("%=")
			printable.Percent(&b, key, "%|")
		}
	}
	return b.String()
}

// isPlain reports whether a key can stand in a joined one: it is not long, has
// no '|', and each '%' in it begins what extractors and core.JoinKey write.
func isPlain(key string) bool {
	if len(key) > maxPlain || strings.IndexByte(key, '|') >= 0 {
		return false
	}
	for {
		i := strings.IndexByte(key, '%')
		if i < 0 {
			return true
		}
		key = key[i:]
		switch {
		case strings.HasPrefix(key, "%25"), strings.HasPrefix(key, "%3A"), strings.HasPrefix(key, "%7C"), strings.HasPrefix(key, printable.HashMark):
			key = key[1:]
		default:
			return false
		}
	}
}
