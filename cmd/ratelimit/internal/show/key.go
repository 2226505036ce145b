package show

import (
	"errors"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"
)

// Key returns a key as tools show it, on one line and whole: as it is, or
// as a Go string in double quotes if a terminal, a page or a shell would change
// it. That is a key that is empty, begins with a dash or a double quote, or has
// a single quote, bytes that are not UTF-8, characters that nobody can see or
// that change how others are read, or spaces that a browser drops. In double
// quotes it is ASCII without spaces and single quotes, so it can be pasted
// between single quotes. [GivenKey] takes it.
func Key(key string) string {
	if isPlain(key) {
		return key
	}
	return inShell.Replace(strconv.QuoteToASCII(key))
}

// inShell writes what QuoteToASCII leaves in a Go string, and what a shell or a
// browser reads differently.
var inShell = strings.NewReplacer(" ", `\x20`, "'", `\x27`)

func isPlain(key string) bool {
	return key != "" && utf8.ValidString(key) && !strings.ContainsRune(`-"`, rune(key[0])) &&
		strings.Join(strings.Fields(key), " ") == key && !strings.ContainsFunc(key, isUnclear)
}

// isUnclear reports whether what people see of r is not r alone, or a shell
// ends a word in single quotes there.
func isUnclear(r rune) bool {
	return r == '\'' || r == utf8.RuneError || !unicode.IsPrint(r) || unicode.In(r, unicode.Other_Default_Ignorable_Code_Point, unicode.Variation_Selector)
}

// ErrQuotes means that a key in double quotes is no Go string.
var ErrQuotes = errors.New(`a key in double quotes must be a Go string, such as "user:\xff", and is taken without the quotes`)

// GivenKey returns the key that someone gives: as it is, or in double quotes as
// [Key] shows it. The error is [ErrQuotes].
func GivenKey(text string) (key string, err error) {
	if len(text) < 2 || text[0] != '"' || text[len(text)-1] != '"' {
		return text, nil
	}
	if key, err = strconv.Unquote(text); err != nil {
		return "", ErrQuotes
	}
	return key, nil
}
