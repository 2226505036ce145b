package core

import (
	"math"
	"time"

	"github.com/tokenbucket-go/ratelimit/core/internal/bucket"
	"github.com/tokenbucket-go/ratelimit/core/internal/calendar"
)

// Month is the RefillInterval of limits by the calendar month: the months themselves, of 28 to 31 days. A multiple of it is
// as many months: 3 * Month is a quarter, and 12 * Month a year. Its length is that of the mean month.
const Month = calendar.Month

// PerWeek returns a limit of n tokens every calendar week whose Capacity is n (at least 1). All come at once, on Monday at
// 00:00 UTC. [Limit.In] chooses another place, and [Limit.Anchored] another day.
func PerWeek[N Number](n N) Limit { return per(float64(n), calendar.Week).In(time.UTC) }

// PerMonth returns a limit of n tokens every calendar month whose Capacity is n (at least 1). All come at once, on the first
// of the month at 00:00 UTC. [Limit.In] chooses another place, and [Limit.Anchored] another day.
func PerMonth[N Number](n N) Limit { return per(float64(n), Month).WithMode(Aligned) }

// In returns the limit Aligned to the calendar of a location. Its RefillInterval must be whole days, weeks or months. Days
// begin at midnight there, weeks on Monday, and several months with a January. A day on which clocks are set forward has 23
// hours, and is one day.
//
// The store's clock decides which day it is. What that means in the location is known to each process from its time zone
// data: without it, [time.LoadLocation] returns an error at start. Import time/tzdata where the system has none.
func (l Limit) In(location *time.Location) Limit {
	if l.Location = location; location == nil {
		l.Location = noLocation
	}
	return l.WithMode(Aligned)
}

// noLocation is what In makes of nil, which is the Location of limits without a calendar.
var noLocation = time.FixedZone("nil", 0)

// Anchored returns the limit Aligned to a calendar one of whose periods begins at t: for months that begin on a customer's
// billing day, weeks that begin on another day, or days that begin at noon. In a month that is shorter, the period begins
// on the last day. The time of day is that of t in the limit's Location, by default UTC.
func (l Limit) Anchored(t time.Time) Limit {
	l.Anchor = t.Round(0).UTC()
	return l.WithMode(Aligned)
}

// onCalendar reports whether l's periods are those of a calendar.
func (l Limit) onCalendar() bool {
	return l.Location != nil || !l.Anchor.IsZero() || l.RefillInterval > 0 && l.RefillInterval%Month == 0
}

// location is where l's days begin; nil: it is aligned to no calendar.
func (l Limit) location() *time.Location {
	switch {
	case !l.onCalendar():
		return nil
	case l.Location == nil:
		return time.UTC
	}
	return l.Location
}

// calendarMistakes reports what is wrong with a limit on a calendar.
func (l Limit) calendarMistakes(wrong func(name string, value any, reason string)) {
	if !l.onCalendar() {
		return
	}
	if l.Location == noLocation {
		wrong("Location", nil, `must be a location: look at the error of time.LoadLocation, and import _ "time/tzdata" if time zone data is missing`)
	}
	if year := l.Anchor.Year(); !l.Anchor.IsZero() && (year < 1900 || year > 2200) {
		wrong("Anchor", l.Anchor.Format(time.RFC3339), "must be between 1900 and 2200")
	}
	months := l.RefillInterval > 0 && l.RefillInterval%Month == 0
	if !months && (l.RefillInterval <= 0 || l.RefillInterval%calendar.Day != 0) {
		wrong("RefillInterval", l.RefillInterval, "must be whole days, weeks or months to be aligned to a calendar")
	}
	if l.Mode <= Aligned && l.Mode != Aligned {
		if months {
			wrong("Mode", l.Mode, "must be Aligned, for calendar months have no fixed length: use 30 * 24 * time.Hour for tokens that come evenly")
		} else {
			wrong("Mode", l.Mode, "must be Aligned for a limit with a Location or an Anchor")
		}
	}
	if periods := float64(l.Capacity) / l.RefillRate; l.RefillRate > 0 && !math.IsInf(l.RefillRate, 0) && periods > bucket.MaxPeriods {
		wrong("RefillRate", l.RefillRate, "is too slow: an empty bucket would take more than "+itoa(bucket.MaxPeriods)+" periods to fill")
	}
}
