// Package printable escapes text from files and clients for messages, logs,
// header fields and keys. It is a package because nearly every other one uses
// it.
package printable

import (
	"strconv"
	"strings"
	"unicode/utf8"
)

// Text returns s with what can't be printed escaped as in Go, such as \n, \x1b
// and \u202e. So it stays on its line and can't steer a terminal. It allocates
// only if there is something to escape.
func Text(s string) string {
	at := first(s)
	if at < 0 {
		return s
	}
	var b strings.Builder
	b.WriteString(s[:at])
	for at < len(s) {
		r, size := utf8.DecodeRuneInString(s[at:])
		if r == '"' || strconv.IsPrint(r) && (r != utf8.RuneError || size > 1) {
			b.WriteRune(r)
		} else {
			quoted := strconv.Quote(s[at : at+size])
			b.WriteString(quoted[1 : len(quoted)-1])
		}
		at += size
	}
	return b.String()
}

// first returns where the first byte stands that can't be printed, or -1.
func first(s string) int {
	for at, r := range s {
		if !strconv.IsPrint(r) || r == utf8.RuneError && !strings.HasPrefix(s[at:], "\ufffd") {
			return at
		}
	}
	return -1
}

// Clip returns at most n bytes of s, and never a part of a character, so that
// messages that quote s stay short.
func Clip(s string, n int) string {
	if len(s) <= n {
		return s
	}
	for n > 0 && !utf8.RuneStart(s[n]) {
		n--
	}
	return s[:n] + "…"
}

// AppendString appends s as an RFC 9651 String (section 3.3.3): in double
// quotes. s must be printable ASCII, as names are.
func AppendString(b []byte, s string) []byte {
	b = append(b, '"')
	for i := range len(s) {
		if s[i] == '"' || s[i] == '\\' {
			b = append(b, '\\')
		}
		b = append(b, s[i])
	}
	return append(b, '"')
}
