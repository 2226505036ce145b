package limit

import (
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"

	"github.com/tokenbucket-go/ratelimit/core/internal/bucket"
	"github.com/tokenbucket-go/ratelimit/core/internal/mistake"
	"github.com/tokenbucket-go/ratelimit/core/internal/quantity"
)

const (
	// maxFill is the longest time in which an empty bucket may fill.
	maxFill = bucket.MaxFill
	// MaxName keeps header fields and Redis keys short.
	MaxName = 128
	// A factor of an override is from leastTimes to mostTimes.
	leastTimes, mostTimes = 0.001, 1_000_000
)

// Mistakes returns what is wrong with l. path is how the caller writes l, with
// a dot at the end.
func (l Limit) Mistakes(path string) []error {
	var errs []error
	wrong := func(name string, value any, reason string) {
		errs = append(errs, mistake.New(path+name, value, reason))
	}
	if l.Name != "" {
		if reason := BadName(l.Name); reason != "" {
			wrong("Name", l.Name, reason)
		}
	}
	if l.Times != 0 {
		l.timesMistakes(wrong)
		return errs
	}
	if l.Unit != "" {
		if reason := badUnit(l.Unit); reason != "" {
			wrong("Unit", l.Unit, reason)
		}
	}
	l.holdMistakes(wrong)
	if l.Mode == bucket.Concurrent {
		l.slotMistakes(wrong)
		return errs
	}
	capacityOK := l.Capacity >= 1 && l.Capacity <= MaxCapacity
	if !capacityOK {
		wrong("Capacity", l.Capacity, "must be from 1 to "+strconv.Itoa(MaxCapacity)+" tokens")
	}
	rateOK := l.RefillRate > 0 && !math.IsInf(l.RefillRate, 0) // false for NaN
	if !rateOK {
		wrong("RefillRate", l.RefillRate, "must be a number above 0 (tokens every RefillInterval)")
	}
	intervalOK := l.RefillInterval >= time.Microsecond
	switch {
	case l.RefillInterval > 0 && !intervalOK: // a number without a unit is nanoseconds
		wrong("RefillInterval", l.RefillInterval, fmt.Sprintf("must be at least 1µs: a number without a unit counts nanoseconds, so write %d*time.Second if you mean that", int64(l.RefillInterval)))
	case !intervalOK:
		wrong("RefillInterval", l.RefillInterval, "must be above 0")
	}
	if rateOK && intervalOK {
		switch {
		case l.RefillInterval > maxFill:
			wrong("RefillInterval", l.RefillInterval, "must be at most 36500 days")
		case !capacityOK:
		case l.Mode != bucket.Continuous && !l.Spec().Exact():
			wrong("RefillRate", l.RefillRate, "has too many decimals for this Capacity")
		case float64(l.Capacity)/l.RefillRate > float64(maxFill)/float64(l.RefillInterval):
			wrong("RefillRate", l.RefillRate, "is too slow: an empty bucket would take more than 100 years to fill")
		}
	}
	l.calendarMistakes(wrong)
	if !bucket.Modes.Valid(int(l.Mode)) {
		wrong("Mode", l.Mode, bucket.Modes.Want())
	}
	return errs
}

// BadName returns why name can't be an RFC 9651 String in a header field, or ""
// if it can.
func BadName(name string) string {
	if name == "" {
		return "is required"
	}
	if len(name) > MaxName {
		return "must be at most " + strconv.Itoa(MaxName) + " bytes long"
	}
	if strings.IndexFunc(name, func(r rune) bool { return r < ' ' || r > '~' }) >= 0 {
		return "must be printable ASCII"
	}
	return ""
}

func badUnit(unit string) string {
	if reason := BadName(unit); reason != "" {
		return reason
	}
	return quantity.BadUnit(unit)
}

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
	months := l.RefillInterval > 0 && l.RefillInterval%bucket.Month == 0
	if !months && l.RefillInterval%bucket.Day != 0 {
		wrong("RefillInterval", l.RefillInterval, "must be whole days, weeks or months to be aligned to a calendar")
	}
	if l.Mode <= bucket.Aligned && l.Mode != bucket.Aligned {
		if months {
			wrong("Mode", l.Mode, "must be Aligned, because calendar months have no fixed length: for tokens that come evenly use 30 days")
		} else {
			wrong("Mode", l.Mode, "must be Aligned for a limit with a Location or an Anchor")
		}
	}
	if periods := float64(l.Capacity) / l.RefillRate; l.RefillRate > 0 && !math.IsInf(l.RefillRate, 0) && periods > bucket.MaxPeriods {
		wrong("RefillRate", l.RefillRate, "is too slow: an empty bucket would take more than "+strconv.Itoa(bucket.MaxPeriods)+" periods to fill")
	}
}

func (l Limit) timesMistakes(wrong func(name string, value any, reason string)) {
	if !(l.Times >= leastTimes && l.Times <= mostTimes) { // NaN is in no range
		wrong("Times", l.Times, "must be from 0.001 to 1,000,000")
	}
	if l != (Limit{Name: l.Name, Times: l.Times}) {
		wrong("Times", l.Times, "stands with a Name alone: it multiplies a limit of the plan, and has no numbers of its own")
	}
}
