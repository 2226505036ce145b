package bucket

import (
	"sync/atomic"
	"time"
)

// Calendar divides time into periods of the calendar: months, or days, of which
// seven are a week. Their lengths differ: months have 28 to 31 days, and where
// clocks are set forward a day has 23 hours.
type Calendar struct {
	months, days int64 // of a period; one of them is 0
	location     *time.Location
	year, month  int64 // of the period 0; month counts from 0
	day          int   // it begins on this day of the month, or on the last day if the month has fewer
	clock        [4]int

	latest atomic.Pointer[Period] // that was asked for, for the next question is mostly about the same
}

// Period is a period and when it begins and ends, in µs since 1970.
type Period struct{ Number, Start, End int64 }

// farthest is an instant, in µs since 1970: no period begins later, or earlier
// than as long before 1970.
const farthest = 1 << 53

// Day, Week and Month are the lengths of periods that a calendar can have, or
// multiples of these. Month stands for calendar months. It is the mean of 400
// years, so that rates can be compared.
const (
	Day   = 24 * time.Hour
	Week  = 7 * Day
	Month = 2_629_746 * time.Second
)

// NewCalendar returns the calendar of periods of length d in a location. It returns nil
// if there is none: d must be a multiple of Day or Month. One period begins at
// the anchor, as a clock in the location shows it. If that is the zero time,
// days begin at midnight, weeks on Monday, and months on the first; several
// months begin with a January.
func NewCalendar(d time.Duration, location *time.Location, anchor time.Time) *Calendar {
	c := &Calendar{location: location}
	switch {
	case d <= 0:
		return nil
	case d%Month == 0: // before days: no multiple of Month up to 100 years is one of Day, but for 400 years
		c.months = int64(d / Month)
	case d%Day == 0:
		c.days = int64(d / Day)
	default:
		return nil
	}
	if anchor.IsZero() {
		day := 1
		if d%Week == 0 {
			day = 5 // a Monday
		}
		c.year, c.month, c.day = 1970, 0, day
		return c
	}
	anchor = anchor.In(location)
	c.year, c.month, c.day = int64(anchor.Year()), int64(anchor.Month())-1, anchor.Day()
	c.clock = [...]int{anchor.Hour(), anchor.Minute(), anchor.Second(), anchor.Nanosecond()}
	return c
}

// Start returns when a period begins, in µs since 1970.
func (c *Calendar) Start(number int64) int64 {
	year, month, day := c.year, c.month, c.day
	if c.months > 0 {
		month += number * c.months
		year += floorTo(month, 12) / 12
		month -= floorTo(month, 12)
		day = min(day, daysIn(year, month))
	} else {
		day += int(number * c.days)
	}
	switch { // instants farther away may not fit
	case year > 2300:
		return farthest
	case year < 1700:
		return -farthest
	}
	want := time.Date(int(year), time.Month(month+1), day, c.clock[0], c.clock[1], c.clock[2], c.clock[3], time.UTC)
	return min(farthest, First(want, c.location).Add(time.Microsecond-1).UnixMicro()) // rounded up
}

// First returns when clocks in a location first show what a clock in UTC shows
// at want. If they are set forward past it, as at midnight in Santiago, that is
// when they are set: what time.Date returns may be a part of the day before.
func First(want time.Time, location *time.Location) time.Time {
	t := time.Date(want.Year(), want.Month(), want.Day(), want.Hour(), want.Minute(), want.Second(), want.Nanosecond(), location)
	set, next := t.ZoneBounds()
	switch shown := Shown(t); {
	case shown.Before(want):
		return next
	case shown.After(want):
		return set
	case set.IsZero():
		return t
	}
	_, offset := set.Add(-1).Zone() // they may have shown it before they were set back
	if before := want.Add(-time.Duration(offset) * time.Second).In(location); before.Before(t) && Shown(before).Equal(want) {
		return before
	}
	return t
}

// Shown returns when a clock in UTC shows what clocks in t's location show at
// t.
func Shown(t time.Time) time.Time {
	_, offset := t.Zone()
	return t.Add(time.Duration(offset) * time.Second).UTC()
}

// daysIn is how many days a month has, which counts from 0.
func daysIn(year, month int64) int {
	return time.Date(int(year), time.Month(month+2), 0, 0, 0, 0, 0, time.UTC).Day()
}

// Number returns the period that an instant is in.
func (c *Calendar) Number(at int64) int64 { return c.At(at).Number }

// At returns the period that an instant is in. It takes instants farther away
// than 285 years for the farthest that it knows.
func (c *Calendar) At(at int64) Period {
	at = max(-farthest, min(farthest-1, at))
	if p := c.latest.Load(); p != nil && p.Start <= at && at < p.End {
		return *p
	}
	local := time.UnixMicro(at).In(c.location)
	var number int64
	if c.months > 0 {
		month := int64(local.Month()) - 1 + 12*(int64(local.Year())-c.year) - c.month
		number = floorTo(month, c.months) / c.months
	} else {
		first := time.Date(int(c.year), time.Month(c.month+1), c.day, 0, 0, 0, 0, time.UTC)
		today := time.Date(local.Year(), local.Month(), local.Day(), 0, 0, 0, 0, time.UTC)
		days := (today.Unix() - first.Unix()) / (24 * 60 * 60)
		number = floorTo(days, c.days) / c.days
	}
	// The period may begin later that day, or, where clocks were set, on
	// another.
	for c.Start(number) > at {
		number--
	}
	for c.Start(number+1) <= at {
		number++
	}
	p := Period{number, c.Start(number), c.Start(number + 1)}
	c.latest.Store(&p)
	return p
}

// Earlier returns the same point of a period some periods before that of an
// instant, or its end if it is shorter.
func (c *Calendar) Earlier(at, periods int64) int64 {
	p := c.At(at)
	return min(c.Start(p.Number-periods)+at-p.Start, c.Start(p.Number-periods+1)-1)
}

// Longest is a length, in µs, that no period exceeds, unless a place moves to
// the other side of the date line: days are up to two hours longer where clocks
// are set back.
func (c *Calendar) Longest() int64 {
	return (24*time.Hour).Microseconds()*(31*c.months+c.days) + (2 * time.Hour).Microseconds()
}

// MostIn is how many periods begin at most in a window of so many µs, from 1970
// to 2112.
func (c *Calendar) MostIn(micros int64) (most int64) {
	first := c.Number(0)
	for last := first; c.Start(last) < Latest; last++ {
		for c.Start(last)-c.Start(first) >= micros && first <= last {
			first++
		}
		most = max(most, last-first+1)
	}
	return most
}
