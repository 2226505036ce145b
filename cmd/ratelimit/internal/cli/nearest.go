package cli

import "github.com/tokenbucket-go/ratelimit/internal/spelling"

// Nearest returns the name that a misspelt word probably means, or "". Words that differ in more than a third of
// their letters mean nothing.
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
	return nearest
}

// hint returns ": did you mean x?" or "".
func hint(word string, names []string, prefix string) string {
	if nearest := Nearest(word, names); nearest != "" {
		return ": did you mean " + prefix + nearest + "?"
	}
	return ""
}
