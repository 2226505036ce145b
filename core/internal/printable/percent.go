package printable

import (
	"crypto/sha256"
	"encoding/hex"
	"strings"
)

// HashMark begins what stands for a long part of a key. In other parts no '%' is
// followed by an 's', because '%' is encoded in them.
const HashMark = "%sha256="

// maxPart is the length of the longest part that a key has as it is, in bytes.
const maxPart = 128

// WritePart writes a part of a key to b: with the bytes of special encoded, of
// which '%' must be one, or HashMark and its SHA-256 if it is longer than 128
// bytes. So clients can't make expensive keys.
func WritePart(b *strings.Builder, part, special string) {
	switch {
	case len(part) > maxPart:
		b.WriteString(HashMark)
		b.WriteString(Digest(part))
	case PartLen(part, special) == len(part): // counting is faster than a look at each byte
		b.WriteString(part)
	default:
		Percent(b, part, special)
	}
}

// PartLen returns how many bytes WritePart writes. It is the length of part only
// if part stays as it is.
func PartLen(part, special string) int {
	if len(part) > maxPart {
		return len(HashMark) + 2*sha256.Size
	}
	n := len(part)
	for i := range len(special) {
		n += 2 * strings.Count(part, special[i:i+1])
	}
	return n
}

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
