package adminlimit

import (
	"net/http"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"
)

// Keys are any bytes. Where one can't be shown as it is, it is shown as a Go string in double quotes, and taken so: what is shown can be
// pasted back. See [given].

// jsonKey returns a key as JSON has it: as it is, or quoted if JSON can't have it, or if it looks quoted.
func jsonKey(key string) string {
	if !utf8.ValidString(key) || looksQuoted(key) {
		return strconv.Quote(key)
	}
	return key
}

// shownKey returns a key, as jsonKey returned it, as the page shows it: also quoted if it has characters that nobody can see, that change how others
// are read, or that a browser drops.
func shownKey(key string) string {
	if !looksQuoted(key) {
		if shown(key) == key && strings.Join(strings.Fields(key), " ") == key {
			return key
		}
		key = strconv.Quote(key)
	}
	return strings.ReplaceAll(key, " ", `\x20`)
}

// looksQuoted reports whether given reads s as a quoted key.
func looksQuoted(s string) bool { return len(s) > 1 && s[0] == '"' && s[len(s)-1] == '"' }

var badQuotes = &failure{http.StatusBadRequest, `a key in double quotes must be a Go string, such as "user:\xff", and is taken without the quotes`}

// given returns the key that someone gives in a form: as it is, or in double quotes.
func given(text string) (key string, failed *failure) {
	if !looksQuoted(text) {
		return text, nil
	}
	key, err := strconv.Unquote(text)
	if err != nil {
		return "", badQuotes
	}
	return key, nil
}

// shown returns s as the page shows it: quoted if it has bytes that nobody can see, or that change how others are read.
func shown(s string) string {
	if strings.ContainsFunc(s, func(r rune) bool { return !unicode.IsPrint(r) || r == unicode.ReplacementChar }) {
		return strconv.Quote(s)
	}
	return s
}
