package accesslog

import (
	"errors"
	"math"
	"strconv"
	"strings"
	"time"
)

// errTime means that a line's time can't be read.
var errTime = errors.New("the time can't be read: it must be as 02/Jan/2006:15:04:05 -0700, RFC 3339, or seconds since 1970")

// layouts are the forms of times with letters or dashes. Those that end with a
// fraction have no zone.
var layouts = []string{
	"02/Jan/2006:15:04:05 -0700",
	time.RFC3339Nano,
	"2006-01-02T15:04:05.999999999",
	"2006-01-02 15:04:05.999999999Z07:00",
	"2006-01-02 15:04:05.999999999 -0700",
	"2006-01-02 15:04:05.999999999",
	"2006-01-02T15:04:05.999999999-0700",
}

// clock reads times. Neighbours often have the same, or the same form.
type clock struct {
	zone *time.Location // of times without one

	text     string
	micros   int64
	layout   int
	zoneless bool // the last time has no zone
	twice    bool // and the zone's clocks show it twice, because they go back
}

// ParseTime reads one time, as logs have them, in µs since 1970. Zone is that of
// times without one.
func ParseTime(text string, zone *time.Location) (micros int64, err error) {
	return (&clock{zone: zone}).parse(text)
}

// read returns a time in µs since 1970.
func (c *clock) read(text []byte) (int64, error) {
	if string(text) == c.text && c.text != "" {
		return c.micros, nil
	}
	micros, err := c.parse(string(text))
	if c.text, c.micros = string(text), micros; err != nil {
		c.text = ""
	}
	return micros, err
}

func (c *clock) parse(s string) (int64, error) {
	c.zoneless, c.twice = false, false
	if n, err := strconv.ParseFloat(s, 64); err == nil {
		return sinceEpoch(n)
	}
	for i := range layouts {
		layout := (c.layout + i) % len(layouts)
		t, err := time.ParseInLocation(layouts[layout], s, c.zone)
		if err != nil && strings.Contains(s, ",") {
			t, err = time.ParseInLocation(layouts[layout], strings.Replace(s, ",", ".", 1), c.zone)
		}
		if err == nil {
			c.layout, c.zoneless = layout, strings.HasSuffix(layouts[layout], "9")
			c.twice = c.zoneless && shownTwice(t)
			return inRange(float64(t.Unix()), t.UnixMicro())
		}
	}
	return 0, errTime
}

// shownTwice reports whether the clocks of t's zone show its time before they go
// back and after it.
func shownTwice(t time.Time) bool {
	begin, end := t.ZoneBounds()
	back := func(at time.Time) time.Duration { // how far they go back at an end of t's bounds
		_, before := at.Add(-1).Zone()
		_, after := at.Zone()
		return time.Duration(before-after) * time.Second
	}
	return !begin.IsZero() && t.Sub(begin) < back(begin) || !end.IsZero() && end.Sub(t) <= back(end)
}

// sinceEpoch reads a number of seconds, ms, µs or ns since 1970. Which it is
// its size tells: seconds of these centuries have at most 10 digits before the
// point.
func sinceEpoch(n float64) (int64, error) {
	for n >= 1e11 && n < 1e20 { // a larger one is out of range
		n /= 1000
	}
	return inRange(n, int64(math.Round(n*1e6)))
}

// inRange returns micros if they are of an instant at which limiters decide:
// from 1970 to 2112.
func inRange(seconds float64, micros int64) (int64, error) {
	if !(seconds >= 0 && seconds < 4_500_000_000) { // also if it is not a number
		return 0, errors.New("the time is not from 1970 to 2112")
	}
	return micros, nil
}
