package bucket

import (
	"math"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// The starts of periods are what time.Date says, and every instant is in the
// period that began last: ten years, in both hemispheres, with and without an
// anchor.
func TestCalendarIsThatOfTime(t *testing.T) {
	for _, zone := range []string{"UTC", "Europe/Berlin", "America/Sao_Paulo", "America/Santiago", "Australia/Sydney", "America/St_Johns", "Asia/Kolkata"} {
		location, err := time.LoadLocation(zone)
		require.NoError(t, err)
		from := time.Date(2015, time.December, 20, 0, 0, 0, 0, location)
		for _, test := range []struct {
			name   string
			length time.Duration
			anchor time.Time
			starts func(t time.Time) bool // at a local midnight, or noon
			hour   int
		}{
			{"days", Day, time.Time{}, func(time.Time) bool { return true }, 0},
			{"weeks", Week, time.Time{}, func(t time.Time) bool { return t.Weekday() == time.Monday }, 0},
			{"months", Month, time.Time{}, func(t time.Time) bool { return t.Day() == 1 }, 0},
			{"quarters", 3 * Month, time.Time{}, func(t time.Time) bool { return t.Day() == 1 && t.Month()%3 == 1 }, 0},
			{"weeks from Wednesday noon", Week, time.Date(2020, time.July, 8, 12, 0, 0, 0, location),
				func(t time.Time) bool { return t.Weekday() == time.Wednesday }, 12},
			{"months from the 31st", Month, time.Date(2025, time.October, 31, 12, 0, 0, 0, location),
				func(t time.Time) bool { return t.Day() == 31 || t.AddDate(0, 0, 1).Day() == 1 }, 12},
			{"years from a leap day", 12 * Month, time.Date(2024, time.February, 29, 12, 0, 0, 0, location), func(t time.Time) bool {
				return t.Month() == time.February && t.AddDate(0, 0, 1).Day() == 1
			}, 12},
		} {
			checkPeriods(t, test.name+" in "+zone, NewCalendar(test.length, location, test.anchor), from, test.hour, test.starts)
		}
	}
}

// checkPeriods looks at ten years, of which a period begins on the days that
// starts reports, at an hour.
func checkPeriods(t *testing.T, name string, c *Calendar, from time.Time, hour int, starts func(time.Time) bool) {
	t.Helper()
	number, periods := int64(0), 0
	for day := range 3653 {
		begin := time.Date(from.Year(), from.Month(), from.Day()+day, hour, 0, 0, 0, from.Location())
		if begin.Hour() != hour { // clocks are set forward at midnight
			_, begin = begin.ZoneBounds()
		}
		if !starts(begin) {
			continue
		}
		at := begin.UnixMicro()
		if periods++; periods > 1 && c.Number(at) != number+1 {
			t.Fatalf("%s: period %d begins at %v, but one does there after %d", name, c.Number(at), begin, number)
		}
		number = c.Number(at)
		if got := c.Start(number); got != at {
			t.Fatalf("%s: a period begins at %v, want %v", name, time.UnixMicro(got).In(from.Location()), begin)
		}
		if c.Number(at-1) != number-1 || c.Number(at+1) != number {
			t.Fatalf("%s: a period begins beside %v", name, begin)
		}
	}
	for at := from.UnixMicro(); at < from.AddDate(10, 0, 0).UnixMicro(); at += 5 * time.Hour.Microseconds() {
		n := c.Number(at)
		if c.Start(n) > at || c.Start(n+1) <= at {
			t.Fatalf("%s: %v is not in its period", name, time.UnixMicro(at))
		}
		if length := c.Start(n+1) - c.Start(n); length <= 0 || length > c.Longest() {
			t.Fatalf("%s: a period of %d µs", name, length)
		}
	}
	if periods < 9 {
		t.Fatalf("%s: only %d periods", name, periods)
	}
}

// No clock and no stored state shows instants so far away. If one ever does, it
// must not keep a lock for ever.
func TestInstantsFarAwayEndTheSearch(t *testing.T) {
	kiritimati, err := time.LoadLocation("Pacific/Kiritimati")
	require.NoError(t, err)
	for _, length := range []time.Duration{Day, Week, Month, 12 * Month, 100 * 12 * Month} {
		for _, anchor := range []time.Time{{}, time.Date(2025, time.October, 31, 9, 0, 0, 0, time.UTC)} {
			for _, at := range []int64{math.MinInt64, -62_135_596_800_000_000, -farthest, -1, 0, Latest, farthest - 1, farthest, math.MaxInt64} {
				p, near := NewCalendar(length, kiritimati, anchor).At(at), max(-farthest, min(farthest-1, at))
				assert.True(t, p.Start <= near && near < p.End, "%v from %v: %d is in the period from %d to %d", length, anchor, at, p.Start, p.End)
			}
		}
	}
}

// A time that clocks show twice is the first of the two, on both sides of
// Greenwich, and one that they leave out is when they are set forward.
func TestFirstIsTheFirstInstantThatShowsATime(t *testing.T) {
	for _, test := range []struct{ zone, shows, first string }{
		{"Europe/Berlin", "2025-10-26T02:30:00Z", "2025-10-26T00:30:00Z"},
		{"America/New_York", "2025-11-02T01:30:00Z", "2025-11-02T05:30:00Z"},
		{"Europe/Berlin", "2025-03-30T02:30:00Z", "2025-03-30T01:00:00Z"},
		{"America/Santiago", "2025-09-07T00:00:00Z", "2025-09-07T04:00:00Z"},
	} {
		location, err := time.LoadLocation(test.zone)
		require.NoError(t, err)
		shows, err := time.Parse(time.RFC3339, test.shows)
		require.NoError(t, err)
		assert.Equal(t, test.first, First(shows, location).UTC().Format(time.RFC3339), "clocks in %s first show %s", test.zone, test.shows)
	}
}
