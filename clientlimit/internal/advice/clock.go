package advice

import (
	"net/http"
	"strconv"
	"strings"
	"time"
)

// clock says how far instants of an answer are ahead.
type clock struct {
	now  time.Time // when the answer came
	date time.Time // when it was sent, on the server's clock; zero: it does not say
}

// span is a time from now on. The zero span means that nothing was said.
type span struct {
	left  time.Duration // at least 0
	whole bool          // said in whole seconds
}

// farthest bounds what a server can say, so that no sum overflows.
const farthest = 10 * 365 * 24 * time.Hour

// retryAfter returns how long the answer asks to wait, or 0.
func (c clock) retryAfter(h http.Header) time.Duration {
	if ms := first(h, "Retry-After-Ms"); isNumber(ms) {
		if d := c.until(ms + "ms"); d.left > 0 {
			return d.left
		}
	}
	return c.until(first(h, "Retry-After")).left
}

// until reads when something is over. Each dialect is recognized by its form:
//
//	120, 1.5                       seconds from now
//	1563325137, 1563325137000      the Unix second, or millisecond: numbers that would be more than 15 years
//	6m0s, 20ms                     a duration
//	Wed, 17 Jul 2019 00:58:57 GMT  a date of HTTP
//	2019-07-17T00:58:57Z           a date of RFC 3339
//
// An instant counts from the server's own Date, so that it does not matter
// whether the clocks agree. What is none of these, negative or over already
// says nothing.
func (c clock) until(s string) span {
	if seconds, err := strconv.ParseFloat(s, 64); err == nil && isNumber(s) {
		whole := !strings.Contains(s, ".")
		switch {
		case seconds >= 5e11 && seconds < 1e14:
			return c.at(time.UnixMilli(int64(seconds)), false)
		case seconds >= 5e8 && seconds < 1e11:
			return c.at(time.UnixMicro(int64(seconds*1e6)), whole)
		case seconds >= farthest.Seconds():
			return ahead(farthest, whole)
		}
		return ahead(time.Duration(seconds*float64(time.Second)), whole)
	}
	if left, err := time.ParseDuration(s); err == nil {
		return ahead(left, false)
	}
	if at := date(s); !at.IsZero() {
		return c.at(at, true)
	}
	if at, err := time.Parse(time.RFC3339, s); err == nil {
		return c.at(at, at.Nanosecond() == 0)
	}
	return span{}
}

// at returns how far an instant is ahead.
func (c clock) at(t time.Time, whole bool) span {
	from := c.now
	if !c.date.IsZero() {
		from = c.date
	}
	return ahead(t.Sub(from), whole)
}

func ahead(left time.Duration, whole bool) span {
	if left <= 0 {
		return span{}
	}
	return span{min(left, farthest), whole}
}

// date reads a date of HTTP; zero if s is none.
func date(s string) time.Time {
	at, _ := http.ParseTime(s)
	return at
}

// isNumber reports whether s is a number as header fields have it: digits,
// perhaps with a fraction.
func isNumber(s string) bool {
	return s != "" && strings.Trim(s, "0123456789.") == ""
}

// count reads a number of requests or tokens, at least 0. Some servers send
// fractions; more than 2^53 is as much as that.
func count(s string) (int64, bool) {
	if !isNumber(s) {
		return 0, false
	}
	n, err := strconv.ParseFloat(s, 64)
	if err != nil && n == 0 {
		return 0, false
	}
	return int64(min(n, 1<<53)), true
}
