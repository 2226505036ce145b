package limit

import (
	"strings"

	"github.com/tokenbucket-go/ratelimit/core/internal/quantity"
)

// cutAtOnce returns what stands in front of the words at once, and what follows them. Neither quotes nor a slash can come before.
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
		if word, rest = cutWord(rest); quantity.Lower(word) == "at" {
			if once, after := cutWord(rest); quantity.Lower(once) == "once" {
				return head, after, true
			}
		}
		if strings.Contains(word, "/") {
			break
		}
	}
	return "", "", false
}

// atOnce are words that mean slots, the longest of those that begin alike first.
var atOnce = []string{
	"at once", "at-once", "atonce", "at a time", "at the same time", "in flight", "in-flight", "inflight", "in parallel", "parallel",
	"concurrently", "concurrent", "simultaneously", "simultaneous", "slots", "slot",
}

// withAtOnce returns how a text may be a limit of slots, or "": N at once for N in flight, max N, N/at once and their kind. What it
// returns may be no limit.
func withAtOnce(s string) string {
	if strings.Contains(s, `"`) {
		return ""
	}
	const around = space + "/,;:="
	s = strings.Join(strings.Fields(s), " ")
	lower := " " + quantity.Lower(strings.ReplaceAll(s, "_", " ")) + " " // as long as s, and a space at each end
	head, tail, meant := s, "", false
	for _, words := range atOnce {
		i := strings.Index(lower, words)
		if end := i + len(words); i > 0 && strings.IndexByte(around+"0123456789", lower[i-1]) >= 0 && strings.IndexByte(around, lower[end]) >= 0 {
			head, tail, meant = s[:i-1], s[end-1:], true
			break
		}
	}
	if strings.HasPrefix(tail, "/") { // slots have no interval
		_, tail = cutWord(tail)
	}
	fields := strings.FieldsFunc(head, func(r rune) bool { return strings.ContainsRune(space+",;:=", r) })
	for _, most := range [...]string{"max", "maximum", "most", "at most", "up to", "limit"} {
		if words := strings.Fields(most); len(fields) >= len(words) && quantity.Lower(strings.Join(fields[:len(words)], " ")) == most {
			fields, meant = fields[len(words):], true
			break
		}
	}
	if !meant {
		return ""
	}
	tail = strings.Trim(tail, around)
	if len(fields) == 0 { // at once 5
		var count string
		count, tail = cutWord(tail)
		fields = append(fields, count)
	}
	if word, rest := cutWord(tail); quantity.Lower(word) == quantity.Requests {
		tail = rest
	}
	return strings.TrimSpace(strings.TrimRight(strings.Join(fields, " "), "/") + " at once " + tail)
}
