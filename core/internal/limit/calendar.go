package limit

import (
	"math"
	"strconv"
	"time"

	"github.com/tokenbucket-go/ratelimit/core/internal/bucket"
	"github.com/tokenbucket-go/ratelimit/core/internal/calendar"
)

// NoLocation is what In makes of nil, which is the Location of limits without a calendar.
var NoLocation = time.FixedZone("nil", 0)

// OnCalendar reports whether l's periods are those of a calendar.
func (l Limit) OnCalendar() bool {
	return l.Location != nil || !l.Anchor.IsZero() || l.RefillInterval > 0 && l.RefillInterval%calendar.Month == 0
}

// Days is where l's days begin; nil: it is aligned to no calendar.
func (l Limit) Days() *time.Location {
	switch {
	case !l.OnCalendar():
		return nil
	case l.Location == nil:
		return time.UTC
	}
	return l.Location
}

// NoAnchor is what Anchored makes of the zero time, which is the Anchor of limits without one.
var NoAnchor = time.Time{}.Add(1)

const anchorRange = "must be between 1900 and 2200"

// outOfRange reports whether an anchor is so far away that it must be a mistake.
func outOfRange(anchor time.Time) bool {
	year := anchor.UTC().Year()
	return year < 1900 || year > 2200
}

// calendarMistakes reports what is wrong with a limit on a calendar.
func (l Limit) calendarMistakes(wrong func(name string, value any, reason string)) {
	if !l.OnCalendar() {
		return
	}
	if l.Location == NoLocation {
		wrong("Location", nil, `must be a location: look at the error of time.LoadLocation, and import _ "time/tzdata" if time zone data is missing`)
	}
	if !l.Anchor.IsZero() && outOfRange(l.Anchor) {
		wrong("Anchor", l.Anchor.Format(time.RFC3339), anchorRange)
	}
	months := l.RefillInterval > 0 && l.RefillInterval%calendar.Month == 0
	if !months && (l.RefillInterval <= 0 || l.RefillInterval%calendar.Day != 0) {
		wrong("RefillInterval", l.RefillInterval, "must be whole days, weeks or months to be aligned to a calendar")
	}
	if l.Mode <= bucket.Aligned && l.Mode != bucket.Aligned {
		if months {
			wrong("Mode", l.Mode, "must be Aligned, because calendar months have no fixed length: write 30 * 24 * time.Hour for tokens that come evenly")
		} else {
			wrong("Mode", l.Mode, "must be Aligned for a limit with a Location or an Anchor")
		}
	}
	if periods := float64(l.Capacity) / l.RefillRate; l.RefillRate > 0 && !math.IsInf(l.RefillRate, 0) && periods > bucket.MaxPeriods {
		wrong("RefillRate", l.RefillRate, "is too slow: an empty bucket would take more than "+strconv.Itoa(bucket.MaxPeriods)+" periods to fill")
	}
}
