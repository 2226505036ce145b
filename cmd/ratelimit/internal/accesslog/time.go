package accesslog

import (
	"errors"
	"math"
	"strconv"
	"time"
)

var (
	errTime  = errors.New("the time must be as 02/Jan/2006:15:04:05 -0700, RFC 3339 with a zone, or seconds since 1970")
	errRange = errors.New("the time must be from 1970 to 2096")
)

// latest bounds times, in seconds since 1970.
const latest = 4e9

var layouts = []string{"02/Jan/2006:15:04:05 -0700", time.RFC3339, "2006-01-02T15:04:05Z0700"}

// parseTime reads a time as servers write it. A number is of seconds, ms, µs or
// ns since 1970: its size says which.
func parseTime(s string) (time.Time, error) {
	if n, err := strconv.ParseFloat(s, 64); err == nil {
		for n >= 1e11 && n < 1e20 {
			n /= 1000
		}
		if !(n >= 0 && n < latest) { // or it is not a number
			return time.Time{}, errRange
		}
		return time.UnixMicro(int64(math.Round(n * 1e6))).UTC(), nil
	}
	for _, layout := range layouts {
		t, err := time.Parse(layout, s)
		switch {
		case err != nil:
		case t.Unix() < 0 || t.Unix() >= latest:
			return time.Time{}, errRange
		default:
			return t.UTC(), nil
		}
	}
	return time.Time{}, errTime
}
