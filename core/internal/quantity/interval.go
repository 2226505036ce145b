package quantity

import (
	"math"
	"math/big"
	"strconv"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/tokenbucket-go/ratelimit/core/internal/calendar"
)

const (
	// Space is what may stand between words.
	Space = " \t\r\n"
	// MaxText is far more than any limit needs, in bytes.
	MaxText = 1024

	day   = calendar.Day
	week  = calendar.Week
	month = calendar.Month
)

// units are the names of times, in lower case. As in Go, m is the minute.
var units = map[string]time.Duration{
	"ns": time.Nanosecond,
	"us": time.Microsecond, "µs": time.Microsecond, "μs": time.Microsecond, // U+00B5 and U+03BC
	"ms": time.Millisecond,
	"s":  time.Second, "sec": time.Second, "secs": time.Second, "second": time.Second, "seconds": time.Second,
	"m": time.Minute, "min": time.Minute, "mins": time.Minute, "minute": time.Minute, "minutes": time.Minute,
	"h": time.Hour, "hr": time.Hour, "hrs": time.Hour, "hour": time.Hour, "hours": time.Hour,
	"d": day, "day": day, "days": day,
	"w": week, "week": week, "weeks": week,
	"mo": month, "month": month, "months": month,
	"y": 12 * month, "year": 12 * month, "years": 12 * month,
}

// WantInterval is the reason for text that is no interval.
const WantInterval = "must be a time such as s, min, h, day, week, month, 30s, 5 min or 1h30m"

// CutInterval reads the interval that s begins with: a unit, or counts with their units. It returns what it
// read, for messages, and the rest of s after the space that follows.
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
		unit, known := units[Lower(name)]
		rest = after
		if !known || !IsNumber(count) || rest != "" && !isDigit(rest[0]) && !strings.ContainsRune(Space, rune(rest[0])) {
			end := strings.IndexAny(rest, Space)
			if end < 0 {
				end = len(rest)
			}
			read, rest = s[:len(s)-len(rest)+end], rest[end:]
			return 0, strings.TrimRight(read, Space), strings.TrimLeft(rest, Space), WantInterval
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

// badTotal returns why an interval can't have so many nanoseconds, or "". months says that some of them were months.
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
	n := strings.IndexFunc(s, func(r rune) bool { return r > '9' || r < '-' }) // digits, point and sign
	if n < 0 {
		n = len(s)
	}
	count, rest = s[:n], s[n:]
	if count != "" {
		rest = strings.TrimLeft(rest, Space)
	}
	n = letters(rest)
	return count, rest[:n], rest[n:]
}

// ParseInterval reads an interval with nothing behind it.
func ParseInterval(s string) (d time.Duration, reason string) {
	d, _, rest, reason := CutInterval(s)
	if reason == "" && rest != "" {
		reason = WantInterval
	}
	if reason != "" {
		return 0, reason
	}
	return d, ""
}

// letters counts the bytes of the letters that s begins with.
func letters(s string) int {
	n := 0
	for n < len(s) {
		r, size := utf8.DecodeRuneInString(s[n:])
		if !unicode.IsLetter(r) {
			break
		}
		n += size
	}
	return n
}

// FormatInterval returns d in the largest unit that counts it in whole numbers: min, 90s, 2days.
func FormatInterval(d time.Duration) string {
	for _, unit := range [...]struct {
		one, many string
		length    time.Duration
	}{
		{"year", "years", 12 * month}, {"month", "months", month}, {"week", "weeks", week}, {"day", "days", day}, {"h", "h", time.Hour}, {"min", "min", time.Minute},
		{"s", "s", time.Second}, {"ms", "ms", time.Millisecond}, {"us", "us", time.Microsecond}, {"ns", "ns", time.Nanosecond},
	} {
		if n := d / unit.length; n == 1 && d == unit.length {
			return unit.one
		} else if d != 0 && d == n*unit.length {
			return strconv.FormatInt(int64(n), 10) + unit.many
		}
	}
	return "0s"
}
