package core

import (
	"cmp"
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"

	"github.com/tokenbucket-go/ratelimit/core/internal/bucket"
	"github.com/tokenbucket-go/ratelimit/core/internal/mistake"
)

const (
	// maxCapacity is the largest integer a structured header field can hold (RFC
	// 9651, 3.3.1).
	maxCapacity = 999_999_999_999_999
	// maxName keeps header fields and Redis keys short.
	maxName = 128
	// maxLimits bounds how many limits a policy has, because every decision
	// computes each of them.
	maxLimits = 64
	// maxSlots bounds the slots of a limit: with so many in use, a decision
	// keeps a Redis server busy for a fifth longer than with one.
	maxSlots = 1000
	// MaxHold and Penalty are from leastHold to mostHold.
	leastHold, mostHold = time.Millisecond, 30 * 24 * time.Hour

	defaultMaxHold = time.Minute // of slots
	// noHold is what WithMaxHold and WithPenalty make of 0, which is that of
	// limits without one.
	noHold time.Duration = math.MinInt64

	anchorRange = "must be between 1900 and 2200"
)

var (
	// noLocation is what In makes of nil, which is the Location of limits
	// without a calendar.
	noLocation = time.FixedZone("nil", 0)
	// noAnchor is what Anchored makes of the zero time, which is the Anchor of
	// limits without one.
	noAnchor = time.Time{}.Add(1)
)

// spec returns l in the form that package bucket uses.
func (l Limit) spec() bucket.Spec {
	return bucket.Spec{
		Capacity: l.Capacity, RefillRate: l.RefillRate, RefillInterval: l.RefillInterval, Mode: bucket.Mode(l.Mode),
		Location: l.days(), Anchor: l.Anchor, Other: l.otherUnit(), MaxHold: l.hold(), Penalty: l.Penalty,
	}
}

func (l Limit) hold() time.Duration {
	if l.MaxHold == 0 && l.Mode == Concurrent {
		return defaultMaxHold
	}
	return l.MaxHold
}

func (l Limit) unitName() string { return cmp.Or(l.Unit, Requests) }

func (l Limit) otherUnit() bool { return l.unitName() != Requests }

// onCalendar reports whether l's periods are those of a calendar.
func (l Limit) onCalendar() bool {
	return l.Location != nil || !l.Anchor.IsZero() || l.RefillInterval > 0 && l.RefillInterval%bucket.Month == 0
}

// days is where l's days begin; nil: it is aligned to no calendar.
func (l Limit) days() *time.Location {
	switch {
	case !l.onCalendar():
		return nil
	case l.Location == nil:
		return time.UTC
	}
	return l.Location
}

func anchorOutOfRange(anchor time.Time) bool {
	year := anchor.UTC().Year()
	return year < 1900 || year > 2200
}

// mistakes returns what is wrong with l. path is how the caller writes l, with
// a dot at the end.
func (l Limit) mistakes(path string) []error {
	var errs []error
	wrong := func(name string, value any, reason string) {
		errs = append(errs, configError(path+name, value, reason))
	}
	if l.Name != "" {
		if reason := badName(l.Name); reason != "" {
			wrong("Name", l.Name, reason)
		}
	}
	if l.Unit != "" {
		if reason := badUnit(l.Unit); reason != "" {
			wrong("Unit", l.Unit, reason)
		}
	}
	l.holdMistakes(wrong)
	l.penaltyMistakes(wrong)
	if l.Mode == Concurrent {
		l.slotMistakes(wrong)
		return errs
	}
	l.rateMistakes(wrong)
	l.calendarMistakes(wrong)
	if !modes.Valid(int(l.Mode)) {
		wrong("Mode", l.Mode, modes.Want())
	}
	if len(errs) == 0 && l.Penalty > 0 {
		if most := l.spec().MaxPenalty(); l.Penalty > most {
			wrong("Penalty", l.Penalty, fmt.Sprintf("must be at most %v: a debt can't be larger at this rate", most.Truncate(time.Second)))
		}
	}
	return errs
}

// rateMistakes returns what is wrong with the capacity and the refill.
func (l Limit) rateMistakes(wrong func(name string, value any, reason string)) {
	capacityOK := l.Capacity >= 1 && l.Capacity <= maxCapacity
	if !capacityOK {
		written := any(l.Capacity)
		if l.Capacity == impliedCapacity(l.RefillRate) { // the rate was written
			written = l.RefillRate
		}
		wrong("Capacity", written, "must be from 1 to "+strconv.Itoa(maxCapacity)+" tokens")
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
		case l.RefillInterval > bucket.MaxFill:
			wrong("RefillInterval", l.RefillInterval, "must be at most 36500 days")
		case !capacityOK:
		case l.Mode != Continuous && !l.spec().Exact():
			wrong("RefillRate", l.RefillRate, "has too many decimals for this Capacity")
		case float64(l.Capacity)/l.RefillRate > float64(bucket.MaxFill)/float64(l.RefillInterval):
			wrong("RefillRate", l.RefillRate, "is too slow: an empty bucket would take more than 100 years to fill")
		}
	}
}

// badName returns why name can't be an RFC 9651 String in a header field, or ""
// if it can.
func badName(name string) string {
	if name == "" {
		return "is required"
	}
	if len(name) > maxName {
		return "must be at most " + strconv.Itoa(maxName) + " bytes long"
	}
	if strings.IndexFunc(name, func(r rune) bool { return r < ' ' || r > '~' }) >= 0 {
		return "must be printable ASCII"
	}
	return ""
}

func badUnit(unit string) string {
	if reason := badName(unit); reason != "" {
		return reason
	}
	if strings.ToLower(unit) != unit {
		return "must not have capitals: write " + strconv.Quote(strings.ToLower(unit))
	}
	return ""
}

func (l Limit) calendarMistakes(wrong func(name string, value any, reason string)) {
	if !l.onCalendar() {
		return
	}
	if l.Location == noLocation {
		wrong("Location", nil, `must be a location: look at the error of time.LoadLocation, and import _ "time/tzdata" if time zone data is missing`)
	}
	if !l.Anchor.IsZero() && anchorOutOfRange(l.Anchor) {
		wrong("Anchor", l.Anchor.Format(time.RFC3339), anchorRange)
	}
	months := l.RefillInterval > 0 && l.RefillInterval%bucket.Month == 0
	if !months && l.RefillInterval%bucket.Day != 0 {
		wrong("RefillInterval", l.RefillInterval, "must be whole days, weeks or months to be aligned to a calendar")
	}
	if l.Mode < Aligned {
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

func (l Limit) slotMistakes(wrong func(name string, value any, reason string)) {
	if l.Capacity < 1 || l.Capacity > maxSlots {
		wrong("Capacity", l.Capacity, "must be from 1 to "+strconv.Itoa(maxSlots)+" slots")
	}
	const none = "must be left out in the Concurrent mode: its tokens are slots, which come back when they are released"
	if l.RefillRate != 0 {
		wrong("RefillRate", l.RefillRate, none)
	}
	if l.RefillInterval != 0 {
		wrong("RefillInterval", l.RefillInterval, none)
	}
	if l.Location != nil {
		wrong("Location", l.Location.String(), none)
	}
	if !l.Anchor.IsZero() {
		wrong("Anchor", l.Anchor.Format(time.RFC3339), none)
	}
}

func (l Limit) holdMistakes(wrong func(name string, value any, reason string)) {
	switch {
	case !durationOK("MaxHold", l.MaxHold, wrong):
	case l.MaxHold != 0 && l.Mode != Concurrent && !l.otherUnit():
		wrong("MaxHold", l.MaxHold, "must be left out here: it is for slots, and for limits of another unit than requests, of which a request takes an estimate")
	}
}

// listMistakes returns what is wrong with the limits of a policy. list is how
// the caller writes the list of limits.
func listMistakes(policy string, limits []Limit, list string) []error {
	if len(limits) == 0 {
		return []error{configError(list, len(limits), "limits: at least one is required")}
	}
	if len(limits) > maxLimits {
		return []error{configError(list, len(limits), "limits: at most "+strconv.Itoa(maxLimits)+" can hold together")}
	}
	var errs []error
	names := make(map[string]int)
	for i, l := range limits {
		element := list + "[" + strconv.Itoa(i) + "]."
		errs = append(errs, l.mistakes(element)...)
		if l.Name == "" { // it gets a name of its own
			continue
		}
		if first, taken := names[l.Name]; !taken {
			names[l.Name] = i
		} else {
			at := mistake.Hidden(list + "[" + strconv.Itoa(first) + "]")
			errs = append(errs, configError(element+"Name", l.Name, "is the name of "+at+" already: give each limit a name of its own"))
		}
	}
	tags := make(map[uint32]string)
	for i, name := range namesOf(policy, limits) {
		tag := bucket.TagOf(name, bucket.Mode(limits[i].Mode))
		if other, taken := tags[tag]; taken && other != name || tag == 0 {
			errs = append(errs, configError(list+"["+strconv.Itoa(i)+"].Name", name,
				"has the same hash as "+strconv.Quote(other)+", and stores identify limits by that hash: choose another name"))
		}
		tags[tag] = name
	}
	return errs
}

// namesOf returns the names that identify limits in headers and in stored
// state. A limit without a name gets one: a sole limit its policy's name, each
// of several the policy's name and its interval.
func namesOf(policy string, limits []Limit) []string {
	names, taken, numbers := make([]string, len(limits)), make(map[string]bool), make(map[string]int)
	for _, l := range limits {
		taken[l.Name] = true
	}
	for i, l := range limits {
		if names[i] = l.Name; l.Name != "" {
			continue
		}
		name := policy
		if len(limits) > 1 {
			if l.Mode == Concurrent {
				name += "-at-once"
			} else {
				name += "-" + shortDuration(l.RefillInterval)
			}
			if l.otherUnit() {
				name += "-" + l.Unit
			}
		}
		names[i] = name
		for n := numbers[name] + 2; taken[names[i]]; n++ { // two limits of the same interval
			names[i], numbers[name] = name+"-"+strconv.Itoa(n), n-1
		}
		taken[names[i]] = true
	}
	return names
}

// shortDuration formats d as people write it: 1m for 1m0s. It is ASCII, because
// names are sent in header fields.
func shortDuration(d time.Duration) string {
	if d%bucket.Month == 0 {
		return intervalText(d)
	}
	s := strings.Replace(d.String(), "µ", "u", 1)
	for _, zero := range [...]string{"m0s", "h0m"} {
		if n := len(s) - len(zero); n > 0 && s[n:] == zero {
			s = s[:n+1]
		}
	}
	return s
}

func (l Limit) penaltyMistakes(wrong func(name string, value any, reason string)) {
	switch {
	case !durationOK("Penalty", l.Penalty, wrong), l.Penalty == 0:
	case l.Mode == Concurrent || l.MaxHold != 0:
		wrong("Penalty", l.Penalty, "must be left out here: what slots and estimates take comes back, so a denial makes no debt of them")
	}
}

// durationOK reports whether a MaxHold or Penalty is 0 or in range.
func durationOK(name string, d time.Duration, wrong func(name string, value any, reason string)) bool {
	const reason = "must be from 1ms to 720h (30 days)"
	switch {
	case d == 0 || d >= leastHold && d <= mostHold:
		return true
	case d == noHold:
		wrong(name, time.Duration(0), reason)
	case d > 0 && d < 100*time.Microsecond: // a number of seconds without a unit
		wrong(name, d, fmt.Sprintf("%s: a number without a unit counts nanoseconds, so write %d*time.Second if you mean that", reason, int64(d)))
	default:
		wrong(name, d, reason)
	}
	return false
}
