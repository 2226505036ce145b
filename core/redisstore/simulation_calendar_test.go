package redisstore_test

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"time"

	"github.com/tokenbucket-go/ratelimit/core"
	"github.com/tokenbucket-go/ratelimit/internal/limitdraw"
	"github.com/tokenbucket-go/ratelimit/internal/limittest"
)

// Calendars, for the oracle and for what is drawn. The oracle's are computed
// day by day from what clocks in a location show, without the library's code.

// simulatedCalendar is a calendar as the oracle reads it: a list of the
// instants at which its periods begin.
type simulatedCalendar struct {
	begins            []int64 // µs since 1970, from before any simulation to after the last
	shortest, longest int64   // periods, µs
	skipped           int64   // days that a location left out, which begin with the next one
}

// simulationCalendars holds the calendars that simulations have drawn, by their
// text.
var simulationCalendars sync.Map

// calendarOf returns the calendar of a limit, or nil if it has none. Equal
// calendars are the same pointer.
func calendarOf(l core.Limit) *simulatedCalendar {
	months, day := int(l.RefillInterval/core.Month), 24*time.Hour
	if l.RefillInterval%core.Month != 0 {
		months = 0
		if l.Location == nil && l.Anchor.IsZero() {
			return nil
		}
	}
	location := l.Location
	if location == nil {
		location = time.UTC
	}
	if location == time.UTC && l.Anchor.IsZero() && l.RefillInterval == day {
		return nil // these days are multiples on the Unix clock
	}
	key := fmt.Sprint(location, l.Anchor, l.RefillInterval)
	if l.RefillInterval == day && !l.Anchor.IsZero() { // any day
		key = fmt.Sprint(location, l.Anchor.In(location).Format(time.TimeOnly))
	}
	if c, known := simulationCalendars.Load(key); known {
		return c.(*simulatedCalendar)
	}
	first := time.Date(1968, time.January, 1, 0, 0, 0, 0, time.UTC) // a Monday
	if !l.Anchor.IsZero() {
		first = l.Anchor.In(location)
	}
	c := &simulatedCalendar{}
	days := int(l.RefillInterval / day)
	k := -(first.Year() - 1966) * 366 / max(1, days)
	if months > 0 {
		k = -(first.Year() - 1966) * 12 / months
	}
	for ; ; k++ {
		at := time.Date(first.Year(), first.Month(), first.Day()+k*days, 0, 0, 0, 0, time.UTC)
		if months > 0 { // on that day of the month, or on the last one
			month := time.Date(first.Year(), first.Month()+time.Month(k*months), 1, 0, 0, 0, 0, time.UTC)
			at = month.AddDate(0, 0, min(first.Day(), month.AddDate(0, 1, -1).Day())-1)
		}
		if at.Year() > limittest.Latest.Year()+5+100*min(1, months) { // reservations are at most 100 years ahead
			break
		}
		c.begins = append(c.begins, shownFirst(at.Year(), at.Month(), at.Day(), first.Hour(), first.Minute(), location))
	}
	c.shortest = never
	for i, begin := range c.begins[1:] {
		switch length := begin - c.begins[i]; {
		case length == 0:
			c.skipped++
		default:
			c.shortest, c.longest = min(c.shortest, length), max(c.longest, length)
		}
	}
	known, _ := simulationCalendars.LoadOrStore(key, c)
	return known.(*simulatedCalendar)
}

// clockChanges returns the days at whose begin in UTC the clocks in a location
// show another zone than a day before, and how many seconds that is ahead of
// UTC.
func clockChanges(location *time.Location) *clocks {
	if c, known := locationClocks.Load(location.String()); known {
		return c.(*clocks)
	}
	c := &clocks{}
	for at := time.Date(1960, time.January, 1, 0, 0, 0, 0, time.UTC); at.Year() < 2230; at = at.AddDate(0, 0, 1) {
		_, ahead := at.In(location).Zone()
		if n := len(c.ahead); n == 0 || c.ahead[n-1] != int64(ahead) {
			c.at, c.ahead = append(c.at, at.Unix()), append(c.ahead, int64(ahead))
		}
	}
	locationClocks.Store(location.String(), c)
	return c
}

type clocks struct{ at, ahead []int64 }

var locationClocks sync.Map

// shownFirst is boundary, but faster if clocks are not set around that time.
func shownFirst(year int, month time.Month, day, hour, minute int, location *time.Location) int64 {
	const near = 51 * 60 * 60
	c, at := clockChanges(location), time.Date(year, month, day, hour, minute, 0, 0, time.UTC).Unix()
	i, _ := slices.BinarySearch(c.at, at-near)
	j, _ := slices.BinarySearch(c.at, at+near)
	if i == j {
		return (at - c.ahead[i-1]) * 1_000_000
	}
	return boundary(year, month, day, hour, minute, location)
}

// begun returns how many periods have begun by an instant.
func (c *simulatedCalendar) begun(wall int64) int64 {
	i, _ := slices.BinarySearch(c.begins, wall+1)
	return int64(i)
}

// step returns the number of the step of an Aligned limit at an instant of the
// clock.
func (x *limitRule) step(wall int64) int64 {
	if x.calendar != nil {
		return x.calendar.begun(wall)
	}
	return wall / x.interval
}

// mostSteps returns how many steps a limit that refills at once can have in a
// time, wherever that begins.
func (x *limitRule) mostSteps(micros int64) int64 {
	if c := x.calendar; c != nil {
		return (micros+c.shortest-1)/c.shortest + c.skipped
	}
	return (micros + x.interval - 1) / x.interval
}

// longestStep returns how long an interval lasts at most.
func (x *limitRule) longestStep() int64 {
	if x.calendar != nil {
		return x.calendar.longest
	}
	return x.interval
}

// toNextStep returns how long it takes until the clock reaches a multiple of
// the interval, or the next period.
func (x *limitRule) toNextStep(wall int64) int64 {
	if c := x.calendar; c != nil {
		return c.begins[c.begun(wall)] - wall
	}
	return x.interval - wall%x.interval
}

// drawCalendar turns a limit into one on a calendar.
func drawCalendar(r *rand.Rand, l core.Limit) core.Limit {
	const day = 24 * time.Hour
	l.RefillInterval = []time.Duration{day, day, 7 * day, core.Month, core.Month, 3 * core.Month, 12 * core.Month}[r.IntN(7)]
	l = l.In(limitdraw.Zone(calendarZones[r.IntN(len(calendarZones))]))
	if r.IntN(2) == 0 {
		day := []int{1, 15, 29, 30, 31}[r.IntN(5)]
		l = l.Anchored(time.Date(2024, time.January, day, []int{0, 2, 12}[r.IntN(3)], 30, 0, 0, l.Location))
	}
	return l
}

// clocksAreSet returns when clocks in a location are set next.
func clocksAreSet(after time.Time, location *time.Location) time.Time {
	if _, end := after.In(location).ZoneBounds(); !end.IsZero() {
		return end
	}
	return after
}
