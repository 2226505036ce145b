package cli

import (
	"strings"

	"github.com/tokenbucket-go/ratelimit/internal/spelling"
)

// Nearest returns the name that a misspelt word probably means, or "": the one
// that differs in at most a third of the word's letters, else the only one that
// begins with the word, or that the word begins with.
func Nearest(word string, names []string) string {
	if len(word) > 64 { // nobody misspells such a word
		return ""
	}
	nearest, least := "", max(1, len(word)/3)+1
	for _, name := range names {
		if d := spelling.Distance(word, name); d < least {
			nearest, least = name, d
		}
	}
	if nearest != "" {
		return nearest
	}
	return sharesPrefix(word, names)
}

// sharesPrefix returns the only one of names that begins with word, or that
// word begins with, or "". Fewer than two letters are no prefix.
func sharesPrefix(word string, names []string) (found string) {
	for _, name := range names {
		if min(len(word), len(name)) < 2 || !strings.HasPrefix(name, word) && !strings.HasPrefix(word, name) {
			continue
		}
		if found != "" {
			return ""
		}
		found = name
	}
	return found
}

// hint returns ": did you mean x?" or "".
func hint(word string, names []string, prefix string) string {
	if nearest := Nearest(word, names); nearest != "" {
		return ": did you mean " + prefix + nearest + "?"
	}
	return ""
}
