package quantity

import (
	"math"
	"math/big"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode"

	"github.com/tokenbucket-go/ratelimit/core/internal/bucket"
)

const (
	// Space is what may stand between words.
	Space = " \t\r\n"
	// MaxText is far more than any limit needs, in bytes.
	MaxText = 1024

	day   = bucket.Day
	week  = bucket.Week
	month = bucket.Month
)

// timeUnit is a unit of time. As in Go, m is the minute.
type timeUnit struct {
	length time.Duration
	names  []string // in lower case: that of one, and of several, as text is written, then all others
}

var timeUnits = [...]timeUnit{
	{12 * month, []string{"year", "years", "y"}},
	{month, []string{"month", "months", "mo"}},
	{week, []string{"week", "weeks", "w"}},
	{day, []string{"day", "days", "d"}},
	{time.Hour, []string{"h", "h", "hr", "hrs", "hour", "hours"}},
	{time.Minute, []string{"min", "min", "m", "mins", "minute", "minutes"}},
	{time.Second, []string{"s", "s", "sec", "secs", "second", "seconds"}},
	{time.Millisecond, []string{"ms", "ms"}},
	{time.Microsecond, []string{"us", "us", "µs", "μs"}}, // U+00B5 and U+03BC
	{time.Nanosecond, []string{"ns", "ns"}},
}

func unitNamed(name string) time.Duration {
	for i := range timeUnits {
		if slices.Contains(timeUnits[i].names, name) {
			return timeUnits[i].length
		}
	}
	return 0
}

const WantInterval = "must be a time such as s, min, h, day, week, month, 30s, 5 min or 1h30m"

// CutInterval reads the interval that s begins with: a unit, or counts with
// their units. It returns what it read, for messages, and the rest of s after
// the space that follows.
func CutInterval(s string) (d time.Duration, read, rest, reason string) {
	s = strings.TrimLeft(s, Space)
	if len(s) > MaxText {
		return 0, s, "", WantInterval
	}
	total, rest, months := new(big.Rat), s, false
	problem, last, bare := "", time.Duration(math.MaxInt64), false
	for first := true; first || rest != "" && isDigit(rest[0]); first = false {
		count, name, after := cutPart(rest)
		if count == "" {
			count, bare = "1", true
		}
		if !first && len(read) < len(s)-len(rest) && (name == "" || !IsNumber(count)) { // what follows is no part of the interval
			break
		}
		if !first && bare {
			problem = "must have a count in front of each unit if there are several, such as 1h30m"
		}
		unit := unitNamed(Lower(name))
		rest = after
		if unit == 0 || !IsNumber(count) || rest != "" && !isDigit(rest[0]) && !strings.ContainsRune(Space, rune(rest[0])) {
			word, after := CutWord(rest)
			return 0, strings.TrimRight(s[:len(s)-len(rest)+len(word)], Space), after, WantInterval
		}
		switch {
		case problem != "":
		case name == "M": // as 1/M: in many notations the month
			problem = "can be read as minutes or months: write min or month"
		case unit >= last:
			problem = "must name each unit once, the largest first, such as 1h30m"
		case readsAsThousands(count) && strings.HasSuffix(count, "0"): // Go prints 1.001s
			problem = twoNumbers(count)
		}
		last = unit
		part, _ := new(big.Rat).SetString(strings.ReplaceAll(count, "_", ""))
		months = months || unit%month == 0
		total.Add(total, part.Mul(part, new(big.Rat).SetInt64(int64(unit))))
		read = s[:len(s)-len(rest)]
		rest = strings.TrimLeft(rest, Space)
	}
	if problem == "" {
		problem = badTotal(total, months)
	}
	if problem != "" {
		return 0, read, rest, problem
	}
	return time.Duration(total.Num().Int64()), read, rest, ""
}

// badTotal returns why an interval can't have so many nanoseconds, some of them
// perhaps months.
func badTotal(total *big.Rat, months bool) string {
	switch {
	case !total.IsInt():
		return "must be whole nanoseconds"
	case !total.Num().IsInt64():
		return "must be at most 100 years"
	case months && new(big.Int).Rem(total.Num(), big.NewInt(int64(month))).Sign() != 0:
		return "must be whole months, or none"
	}
	return ""
}

// cutPart cuts a count and the name of its unit off s. Either may be missing.
func cutPart(s string) (count, name, rest string) {
	rest = strings.TrimLeftFunc(s, func(r rune) bool { return '-' <= r && r <= '9' }) // digits, point and sign
	if count = s[:len(s)-len(rest)]; count != "" {
		rest = strings.TrimLeft(rest, Space)
	}
	after := strings.TrimLeftFunc(rest, unicode.IsLetter)
	return count, rest[:len(rest)-len(after)], after
}

// CutWord returns the first word of s, and what follows it without space in
// front.
func CutWord(s string) (word, rest string) {
	n := strings.IndexAny(s, Space)
	if n < 0 {
		return s, ""
	}
	return s[:n], strings.TrimLeft(s[n:], Space)
}

// ParseInterval reads an interval with nothing behind it.
func ParseInterval(s string) (d time.Duration, reason string) {
	d, _, rest, reason := CutInterval(s)
	if reason == "" && rest != "" {
		return 0, WantInterval
	}
	return d, reason
}

// FormatInterval returns d in the largest unit that counts it in whole numbers:
// min, 90s, 2days.
func FormatInterval(d time.Duration) string {
	for _, unit := range timeUnits {
		if n := d / unit.length; n == 1 && d == unit.length {
			return unit.names[0]
		} else if d != 0 && d == n*unit.length {
			return strconv.FormatInt(int64(n), 10) + unit.names[1]
		}
	}
	return "0s"
}
