package advice

import (
	"net/http"
	"strconv"
	"strings"
	"time"
)

// clock tells how far instants of an answer are ahead.
type clock struct {
	now  time.Time // when the answer came
	date time.Time // when it was sent, on the server's clock; zero: it does not say
}

// span is a time from now on.
type span struct {
	left  time.Duration // more than 0
	whole bool          // said in whole seconds
}

// farthest bounds what a server can say, so that no sum overflows.
const farthest = 10 * 365 * 24 * time.Hour

// until reads when something is over. Each dialect is recognized by its form:
//
//	120, 1.5                       seconds from now
//	1563325137, 1563325137000      the Unix second, or millisecond: numbers that would be more than 15 years
//	6m0s, 20ms                     a duration
//	Wed, 17 Jul 2019 00:58:57 GMT  a date of HTTP
//	2019-07-17T00:58:57Z           a date of RFC 3339
//
// An instant counts from the server's own Date, so that it does not matter
// whether the clocks agree. ok is false for what is none of these, negative or
// over already.
func (c clock) until(s string) (d span, ok bool) {
	if seconds, err := strconv.ParseFloat(s, 64); err == nil && isNumber(s) {
		switch {
		case seconds >= 5e11 && seconds < 1e14:
			return c.at(time.UnixMilli(int64(seconds)), false)
		case seconds >= 5e8 && seconds < 1e11:
			return c.at(time.UnixMicro(int64(seconds*1e6)), seconds == float64(int64(seconds)))
		}
		left := farthest
		if seconds < farthest.Seconds() {
			left = time.Duration(seconds * float64(time.Second))
		}
		return span{left, !strings.Contains(s, ".")}, left > 0
	}
	if left, err := time.ParseDuration(s); err == nil {
		return span{min(left, farthest), false}, left > 0
	}
	if at := date(s); !at.IsZero() {
		return c.at(at, true)
	}
	if at, err := time.Parse(time.RFC3339, s); err == nil {
		return c.at(at, at.Nanosecond() == 0)
	}
	return span{}, false
}

// at returns how far an instant is ahead.
func (c clock) at(t time.Time, whole bool) (span, bool) {
	from := c.now
	if !c.date.IsZero() {
		from = c.date
	}
	left := min(t.Sub(from), farthest)
	return span{left, whole}, left > 0
}

// date reads a date of HTTP; zero if s is none.
func date(s string) time.Time {
	if at, err := http.ParseTime(s); err == nil {
		return at
	}
	return time.Time{}
}

// isNumber reports whether s is a number as header fields have it: digits,
// perhaps with a fraction.
func isNumber(s string) bool {
	return s != "" && strings.Trim(s, "0123456789.") == ""
}

// count reads a number of requests or tokens, at least 0. Some servers send
// fractions; more than an int64 can hold is as much as it can.
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
