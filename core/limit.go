package core

import (
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"

	"github.com/tokenbucket-go/ratelimit/core/internal/calendar"

	"github.com/tokenbucket-go/ratelimit/core/internal/bucket"
	"github.com/tokenbucket-go/ratelimit/core/internal/mistake"
	"github.com/tokenbucket-go/ratelimit/core/internal/quantity"
)

// Mode is how a bucket refills.
type Mode uint8

const (
	// Continuous adds tokens one by one, evenly over the interval: a limit of 60 a minute adds one every second. It
	// is the default, and the smoothest for clients.
	Continuous Mode = iota
	// Stepped adds RefillRate tokens at once every RefillInterval, counted from the bucket's first
	// use after it was full.
	Stepped
	// Aligned adds RefillRate tokens at once at every multiple of RefillInterval on the Unix clock: every minute at
	// :00, every day at 00:00 UTC, every week on Thursday at 00:00 UTC. Or it does so by the calendar: see [PerMonth],
	// [PerWeek] and [Limit.In]. Use it for quotas.
	Aligned
)

// String returns the mode's name in Go, without the package.
func (m Mode) String() string {
	switch m {
	case Continuous:
		return "Continuous"
	case Stepped:
		return "Stepped"
	case Aligned:
		return "Aligned"
	}
	return "Mode(" + itoa(int64(m)) + ")"
}

// Limit is one token bucket. A request takes its cost from the bucket, and is denied if the bucket holds less. The
// bucket refills by RefillRate tokens every RefillInterval, up to Capacity.
//
// The rate bounds the long run, and the capacity bounds the burst. That is not a fixed window: see [Limit.MaxIn].
type Limit struct {
	// Name identifies the limit among those of its policy: in headers, and in the store, so that its tokens stay its
	// own when the policy changes. It must be printable ASCII, at most 128 bytes. If it is empty, a sole limit has
	// its policy's name; each of several has the policy's name and its interval, such as "api-1m", and its Unit if that
	// is not requests, such as "api-1m-tokens".
	Name string

	// Capacity is the most tokens that the bucket holds, and so the largest burst: 1 to 999,999,999,999,999.
	Capacity int64

	// RefillRate is how many tokens the bucket gains every RefillInterval. It must be above 0 and fill the bucket
	// within 100 years. A decimal fraction such as 0.1 means exactly that fraction.
	RefillRate float64

	// RefillInterval is the time in which the bucket gains RefillRate tokens: from 1 µs to 100 years. In the Stepped
	// and Aligned modes it is rounded up to whole microseconds.
	RefillInterval time.Duration

	// Mode is how the bucket refills within the interval. The zero value is Continuous.
	Mode Mode

	// Unit is what the tokens stand for, such as "tokens" of a language model or "bytes". It must be printable ASCII
	// without capitals, 2 to 128 bytes, and neither a word of [ParseLimit]'s form nor a misspelling of [Requests]. If it is
	// empty, the limit counts requests: [Limiter.AllowN] takes its cost from such limits only, and [Limiter.AllowUnits] from all.
	Unit string

	// Location is where the days of an Aligned limit begin: see [Limit.In]. If it is nil, they are multiples on the Unix
	// clock.
	Location *time.Location

	// Anchor is when one of the periods of an Aligned limit begins: see [Limit.Anchored]. It is zero if no day was
	// chosen.
	Anchor time.Time
}

// MaxIn returns the most tokens that this limit admits in any window of length d: a full bucket and its refill in the
// meantime. For example, 17 tokens every 30 seconds admit up to 34 in 30 seconds.
//
// A Continuous bucket refills evenly, so the result is Capacity + RefillRate × d/RefillInterval. Stepped and Aligned
// buckets refill at once, perhaps just after the window opens. They count a refill for every interval that d touches,
// up to Capacity each, because a bucket loses what overflows. A result above the largest int64 is the largest int64.
//
// MaxIn counts what the limit admits. [Limiter.Debit], and a [Result.Settle] that charges more, take tokens for what has
// happened already. What the bucket lacks then is a debt, and later requests wait until it is paid. So over a long time no
// more is used than the rate brings, a full bucket, and the debt.
//
// MaxIn returns 0 if d is negative or no constructor would accept the Limit.
func (l Limit) MaxIn(d time.Duration) int64 {
	if d < 0 || len(l.mistakes("")) > 0 {
		return 0
	}
	total := l.spec().MaxIn(d)
	if !total.IsInt64() {
		return math.MaxInt64
	}
	return total.Int64()
}

// spec returns l in the form that package bucket uses.
func (l Limit) spec() bucket.Spec {
	return bucket.Spec{
		Capacity: l.Capacity, RefillRate: l.RefillRate, RefillInterval: l.RefillInterval, Mode: bucket.Mode(l.Mode),
		Location: l.location(), Anchor: l.Anchor, Other: l.otherUnit(),
	}
}

const (
	// maxCapacity is the largest integer a structured header field can hold (RFC 9651, 3.3.1).
	maxCapacity = quantity.MaxTokens
	// maxFill is the longest time in which an empty bucket may fill.
	maxFill = bucket.MaxFill
	// maxName keeps header fields and Redis keys short.
	maxName = 128
)

// mistakes returns what is wrong with l. path is how the caller writes l, with a dot at the end.
func (l Limit) mistakes(path string) []error {
	var errs []error
	wrong := func(name string, value any, reason string) {
		errs = append(errs, mistake.New(path+name, value, reason))
	}
	if l.Name != "" {
		if reason := badName(l.Name); reason != "" {
			wrong("Name", l.Name, reason)
		}
	}
	capacityOK := l.Capacity >= 1 && l.Capacity <= maxCapacity
	if !capacityOK {
		wrong("Capacity", l.Capacity, "must be from 1 to "+strconv.Itoa(maxCapacity)+" tokens")
	}
	rateOK := l.RefillRate > 0 && !math.IsInf(l.RefillRate, 0) // false for NaN
	if !rateOK {
		wrong("RefillRate", l.RefillRate, "must be a number above 0 (tokens every RefillInterval)")
	}
	intervalOK := l.RefillInterval >= time.Microsecond
	switch {
	case l.RefillInterval > 0 && !intervalOK: // a number without a unit is nanoseconds
		wrong("RefillInterval", l.RefillInterval, fmt.Sprintf("must be at least 1µs: did you mean %d * time.Second?", int64(l.RefillInterval)))
	case !intervalOK:
		wrong("RefillInterval", l.RefillInterval, "must be above 0")
	}
	if rateOK && intervalOK {
		switch {
		case l.RefillInterval > maxFill:
			wrong("RefillInterval", l.RefillInterval, "must be at most 100 years of 365 days")
		case !capacityOK:
		case l.Mode != Continuous && !l.spec().Exact():
			wrong("RefillRate", l.RefillRate, "has too many decimals for this Capacity")
		case float64(l.Capacity)/l.RefillRate > float64(maxFill)/float64(l.RefillInterval):
			wrong("RefillRate", l.RefillRate, "is too slow: an empty bucket would take more than 100 years to fill")
		}
	}
	if l.Unit != "" {
		if reason := badUnit(l.Unit); reason != "" {
			wrong("Unit", l.Unit, reason)
		}
	}
	l.calendarMistakes(wrong)
	if l.Mode > Aligned {
		wrong("Mode", l.Mode, "must be Continuous, Stepped or Aligned")
	}
	return errs
}

// badName returns why name can't be an RFC 9651 String in a header field, or "" if it can.
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

// badUnit returns why a limit can't count a unit, or "" if it can.
func badUnit(unit string) string {
	if reason := badName(unit); reason != "" {
		return reason
	}
	return quantity.BadUnit(unit)
}

func itoa(n int64) string { return strconv.FormatInt(n, 10) }

// unit is what l counts.
func (l Limit) unit() string {
	if l.Unit == "" {
		return Requests
	}
	return l.Unit
}

// otherUnit reports whether l counts something else than requests.
func (l Limit) otherUnit() bool { return l.unit() != Requests }

// Month is the RefillInterval of limits by the calendar month: the months themselves, of 28 to 31 days. A multiple of it is
// as many months: 3 * Month is a quarter, and 12 * Month a year. Its length is that of the mean month.
const Month = calendar.Month

// noLocation is what In makes of nil, which is the Location of limits without a calendar.
var noLocation = time.FixedZone("nil", 0)

// onCalendar reports whether l's periods are those of a calendar.
func (l Limit) onCalendar() bool {
	return l.Location != nil || !l.Anchor.IsZero() || l.RefillInterval > 0 && l.RefillInterval%Month == 0
}

// same reports whether l and other are the same limit. Their Locations may have been loaded separately.
func (l Limit) same(other Limit) bool {
	if l.Location != nil && other.Location != nil && l.Location.String() == other.Location.String() {
		l.Location, other.Location = nil, nil
	}
	return l == other
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

// noAnchor is what Anchored makes of the zero time, which is the Anchor of limits without one.
var noAnchor = time.Time{}.Add(1)

const anchorRange = "must be between 1900 and 2200"

// outOfRange reports whether an anchor is so far away that it must be a mistake.
func outOfRange(anchor time.Time) bool {
	year := anchor.UTC().Year()
	return year < 1900 || year > 2200
}

// calendarMistakes reports what is wrong with a limit on a calendar.
func (l Limit) calendarMistakes(wrong func(name string, value any, reason string)) {
	if !l.onCalendar() {
		return
	}
	if l.Location == noLocation {
		wrong("Location", nil, `must be a location: look at the error of time.LoadLocation, and import _ "time/tzdata" if time zone data is missing`)
	}
	if !l.Anchor.IsZero() && outOfRange(l.Anchor) {
		wrong("Anchor", l.Anchor.Format(time.RFC3339), anchorRange)
	}
	months := l.RefillInterval > 0 && l.RefillInterval%Month == 0
	if !months && (l.RefillInterval <= 0 || l.RefillInterval%calendar.Day != 0) {
		wrong("RefillInterval", l.RefillInterval, "must be whole days, weeks or months to be aligned to a calendar")
	}
	if l.Mode <= Aligned && l.Mode != Aligned {
		if months {
			wrong("Mode", l.Mode, "must be Aligned, because calendar months have no fixed length: write 30 * 24 * time.Hour for tokens that come evenly")
		} else {
			wrong("Mode", l.Mode, "must be Aligned for a limit with a Location or an Anchor")
		}
	}
	if periods := float64(l.Capacity) / l.RefillRate; l.RefillRate > 0 && !math.IsInf(l.RefillRate, 0) && periods > bucket.MaxPeriods {
		wrong("RefillRate", l.RefillRate, "is too slow: an empty bucket would take more than "+itoa(bucket.MaxPeriods)+" periods to fill")
	}
}
