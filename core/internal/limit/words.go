package limit

import (
	"slices"
	"strings"
	"time"

	"github.com/tokenbucket-go/ratelimit/core/internal/printable"
	"github.com/tokenbucket-go/ratelimit/core/internal/quantity"
	"github.com/tokenbucket-go/ratelimit/internal/spelling"
)

const space = quantity.Space

// cutName returns the name that s begins with, bare or in quotes, and how it is
// written.
func cutName(s string) (name, written, rest, reason string) {
	if !strings.HasPrefix(s, `"`) {
		word, rest := quantity.CutWord(s)
		switch {
		case word == "":
			return "", "", rest, "is missing"
		case BadName(word) == "" && !isBare(word):
			return "", word, rest, `must be in double quotes, with \" for a quote and \\ for a backslash`
		}
		return word, word, rest, ""
	}
	var b strings.Builder
	for i := 1; i < len(s); i++ {
		switch c := s[i]; c {
		case '"':
			written, rest = s[:i+1], s[i+1:]
			trimmed := strings.TrimLeft(rest, space)
			switch {
			case rest != "" && rest == trimmed:
				return "", written, rest, "must be followed by space"
			case b.Len() == 0:
				return "", written, trimmed, "must not be empty"
			}
			return b.String(), written, trimmed, ""
		case '\\':
			if i++; i == len(s) || s[i] != '"' && s[i] != '\\' {
				return "", s, "", `has a backslash before neither " nor \`
			}
			b.WriteByte(s[i])
		default:
			b.WriteByte(c)
		}
	}
	return "", s, "", "has no closing quote"
}

// cutZone returns the name of a zone that s begins with, as cutName does, but a
// '+' needs no quotes.
func cutZone(s string) (zone, written, rest, reason string) {
	if word, rest := quantity.CutWord(s); word != "" && word[0] != '"' {
		return word, word, rest, ""
	}
	return cutName(s)
}

// meant returns which of the keywords a word in front of rest may have meant,
// in parentheses, or "": one that it begins, or nearly is.
func meant(word, rest string, keywords []string) string {
	if quantity.IsNumber(word) && slices.Contains(keywords, "burst") {
		return " (did you mean burst " + word + "?)"
	}
	letters := strings.Trim(quantity.Lower(word), "0123456789:=.,;_-")
	head, value, set := strings.Cut(word, "=")
	if !set {
		head, value, set = strings.Cut(word, ":")
	}
	if set { // burst=20
		letters = quantity.Lower(head)
	} else if i := strings.IndexAny(word, "0123456789"); i > 0 { // burst20
		value = word[i:]
	}
	if short, ok := strings.CutPrefix(letters, "max"); ok && strings.Trim(short, "_-") == "hold" {
		letters = "hold"
	}
	for _, keyword := range keywords {
		prefix := len(letters) >= 3 && strings.HasPrefix(keyword, letters)
		if !prefix && (len(letters) < 4 || spelling.Distance(letters, keyword) > len(keyword)/4+1) {
			continue
		}
		switch {
		case !slices.Contains([]string{"burst", "name", "from", "hold"}, keyword):
		case value != "":
			keyword += " " + value
		case rest == "":
			return "" // it needs a value
		}
		return " (did you mean " + keyword + "?)"
	}
	return ""
}

// TooShort returns the mistake in an interval that text gives, or "". The hint
// for a time.Duration is none for text.
func TooShort(interval time.Duration) (reason string) {
	if interval > 0 && interval < time.Microsecond {
		return "must be at least 1µs"
	}
	return ""
}

// withSlash returns how a text without a slash may be a limit with one, or "".
func withSlash(s string) string {
	fields := strings.Fields(quantity.Lower(s))
	if len(fields) > 3 && strings.HasPrefix(fields[1], "req") { // 1 request per second
		fields = slices.Delete(fields, 1, 2)
	}
	if len(fields) > 2 && slices.Contains([]string{"per", "a", "an", "each", "every", "in"}, fields[1]) {
		return fields[0] + "/" + strings.Join(fields[2:], " ")
	}
	for _, short := range [...]struct{ end, interval string }{{"rps", "s"}, {"rpm", "min"}, {"rph", "h"}, {"rpd", "day"}, {"qps", "s"}} {
		if rate, ok := strings.CutSuffix(strings.Join(fields, ""), short.end); ok {
			return rate + "/" + short.interval
		}
	}
	return ""
}

// asFactor returns the text of the factor that s may mean, such as x10 for 10
// times, or "".
func asFactor(s string) string {
	head, name, named := strings.Cut(quantity.Lower(s), " name ")
	number := strings.Trim(strings.TrimSuffix(strings.Trim(head, space), "times"), "x×*"+space)
	switch {
	case number == strings.Trim(head, space), number == "", number[0] < '0', number[0] > '9':
		return ""
	case named:
		return "x" + number + " name " + s[len(s)-len(name):]
	}
	return "x" + number
}

func bareOrQuoted(name string) string {
	if name != "" && isBare(name) {
		return name
	}
	return string(printable.AppendString(nil, name))
}

func isBare(name string) bool {
	return strings.IndexFunc(name, func(r rune) bool {
		return !('a' <= r && r <= 'z' || 'A' <= r && r <= 'Z' || '0' <= r && r <= '9' || strings.ContainsRune(".:/_-", r))
	}) < 0
}

// cutAtOnce returns what stands in front of the words at once, and what follows
// them. Neither quotes nor a slash can come before.
func cutAtOnce(s string) (head, rest string, ok bool) {
	rest = strings.TrimLeft(s, space)
	for rest != "" {
		if rest[0] == '"' {
			_, _, after, reason := cutName(rest)
			if reason != "" {
				return "", "", false
			}
			rest = after
			continue
		}
		var word string
		head = s[:len(s)-len(rest)]
		if word, rest = quantity.CutWord(rest); quantity.Lower(word) == "at" {
			if once, after := quantity.CutWord(rest); quantity.Lower(once) == "once" {
				return head, after, true
			}
		}
		if strings.Contains(word, "/") {
			break
		}
	}
	return "", "", false
}
