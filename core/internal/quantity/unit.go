package quantity

import (
	"slices"
	"strconv"
	"strings"

	"github.com/tokenbucket-go/ratelimit/internal/spelling"
)

// wordsOfLimits are no units: the limit would never apply. The fields of a
// limit are among them.
var wordsOfLimits = []string{
	"limits", "rate", "rates", "ratelimit", "rate-limit", "rate_limit", "limit", "burst", "bursts", "per", "every", "each", "in", "from",
	"continuous", "stepped", "aligned", "units", "interval", "refill", "window", "period", "max", "maximum", "zone", "times", "time",
	"name", "hold", "holds", "max_hold", "at", "once", "concurrent", "slots", "capacity", "refill_rate", "refill_interval", "mode", "unit", "location", "anchor",
}

// multiples are no units but parts of a number.
var multiples = []string{"hundred", "thousand", "thousands", "million", "millions", "billion", "billions", "mio", "mln", "bn", "kilo", "mega"}

// shortRequests are abbreviations of requests. Most misspellings of it are
// found by their distance.
var shortRequests = []string{"req", "reqs", "reqst", "rq", "rqs", "rqst", "rqsts", "rps", "rpm", "rph", "rpd", "qps", "qpm"}

// Requests is the unit of limits that name none.
const Requests = "requests"

// BadUnit returns why a limit can't count a unit, or "" if it can: a unit that
// nobody charges never denies, so what is probably a mistake is refused. The
// unit must be printable ASCII.
func BadUnit(unit string) string {
	if lower := Lower(unit); lower != unit {
		return "must not have capitals: write " + strconv.Quote(lower)
	}
	if unit == Requests {
		return ""
	}
	if strings.TrimSpace(unit) != unit {
		return "must not begin or end with a space"
	}
	for word := range strings.FieldsSeq(unit) {
		switch word = strings.Trim(word, ".:_-/"); {
		case slices.Contains(wordsOfLimits, word):
			return "is not a unit but a word of limits: to count requests, leave it out"
		case slices.Contains(multiples, word):
			return "is not a unit: write the number in digits, such as 5000"
		case slices.Contains(shortRequests, word), likeRequests(word):
			return "is not a unit but looks like requests: to count requests, write requests, or leave it out"
		}
	}
	if len(unit) == 1 {
		return "is too short for a unit: write a word such as tokens, or leave it out to count requests"
	}
	return ""
}

// likeRequests reports whether word is a misspelling of requests.
func likeRequests(word string) bool {
	return len(word) >= 5 && (word[0] == 'r' || word[0] == 'e') && word != Requests && spelling.Distance(word, Requests) <= 2
}
