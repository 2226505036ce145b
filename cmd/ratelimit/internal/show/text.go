package show

import (
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"
)

// Visible is s with escapes in place of characters that a terminal obeys or that
// nobody sees.
func Visible(s string) string {
	var b strings.Builder
	for _, r := range s {
		if unicode.IsPrint(r) || r == '\t' {
			b.WriteRune(r)
		} else {
			b.WriteString(strings.Trim(strconv.QuoteRune(r), "'"))
		}
	}
	return b.String()
}

// most is how many bytes of a text from a file are shown.
const most = 96

// Text is s on one line of a terminal: quoted if it has other characters than
// printable ones, and clipped if it is long.
func Text(s string) string {
	clipped := clip(s, most)
	plain := utf8.ValidString(clipped) && clipped != "" && strings.TrimSpace(clipped) == clipped
	for _, r := range clipped {
		plain = plain && unicode.IsPrint(r)
	}
	if !plain {
		clipped = strconv.Quote(clipped)
	}
	if len(s) > most {
		clipped += "…"
	}
	return clipped
}

// clip returns the first bytes of s, at most so many, and no part of a
// character.
func clip(s string, most int) string {
	if len(s) <= most {
		return s
	}
	s = s[:most]
	for len(s) > 0 && !utf8.ValidString(s[max(0, len(s)-utf8.UTFMax):]) && len(s) > most-utf8.UTFMax {
		s = s[:len(s)-1]
	}
	return s
}
