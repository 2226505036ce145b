package adminlimit

import (
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"
)

// text returns s as the page and JSON show it: as it is, or as a Go string in
// double quotes if a page would show other characters than s has. given is the
// inverse.
func text(s string) string {
	if s == "" || utf8.ValidString(s) && s[0] != '"' && strings.Join(strings.Fields(s), " ") == s && !strings.ContainsFunc(s, isUnclear) {
		return s
	}
	return strings.ReplaceAll(strconv.QuoteToASCII(s), " ", `\x20`) // of several spaces, a page shows one
}

// isUnclear reports whether people don't see r, or see it as another one, or it
// changes how others are shown.
func isUnclear(r rune) bool {
	return r == utf8.RuneError || !unicode.IsPrint(r) || unicode.In(r, unicode.Other_Default_Ignorable_Code_Point, unicode.Variation_Selector)
}

// given returns the key that someone gives, as it is or as text shows it.
func given(s string) (key string, err error) {
	if s = strings.TrimSpace(s); len(s) < 2 || s[0] != '"' || s[len(s)-1] != '"' {
		return s, nil
	}
	if key, err = strconv.Unquote(s); err != nil {
		return "", badKey
	}
	return key, nil
}
