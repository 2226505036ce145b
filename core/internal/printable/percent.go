package printable

import (
	"crypto/sha256"
	"encoding/hex"
	"strings"
)

// Percent writes s to b and percent-encodes its bytes that are in special (RFC
// 3986, section 2.1), for keys that must be told apart.
func Percent(b *strings.Builder, s, special string) {
	plain := 0 // where the bytes begin that are not written yet
	for i := range len(s) {
		if strings.IndexByte(special, s[i]) >= 0 {
			b.WriteString(s[plain:i])
			PercentByte(b, s[i])
			plain = i + 1
		}
	}
	b.WriteString(s[plain:])
}

func PercentByte(b *strings.Builder, c byte) {
	const digits = "0123456789ABCDEF"
	b.WriteByte('%')
	b.WriteByte(digits[c>>4])
	b.WriteByte(digits[c&15])
}

// Digest returns the SHA-256 of s in hexadecimal. It copies s block by block,
// so that a long s costs no allocation.
func Digest(s string) string {
	h := sha256.New()
	var block [1024]byte
	for s != "" {
		n := copy(block[:], s)
		h.Write(block[:n])
		s = s[n:]
	}
	return hex.EncodeToString(h.Sum(nil))
}
