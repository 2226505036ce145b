// Package limit is what a limit means, whoever writes it: what is wrong with
// it, how it is named, and its text. It is a package because policies in JSON
// and header fields need it, and core imports both. Package core documents its
// fields.
package limit

import (
	"cmp"
	"fmt"
	"math"
	"strconv"
	"time"

	"github.com/tokenbucket-go/ratelimit/core/internal/bucket"
	"github.com/tokenbucket-go/ratelimit/core/internal/quantity"
)

// Limit is a core.Limit.
type Limit struct {
	Name           string
	Capacity       int64
	RefillRate     float64
	RefillInterval time.Duration
	Mode           bucket.Mode
	Unit           string
	Location       *time.Location
	Anchor         time.Time
	MaxHold        time.Duration
	Times          float64
}

// Spec returns l in the form that package bucket uses.
func (l Limit) Spec() bucket.Spec {
	return bucket.Spec{
		Capacity: l.Capacity, RefillRate: l.RefillRate, RefillInterval: l.RefillInterval, Mode: l.Mode,
		Location: l.Days(), Anchor: l.Anchor, Other: l.OtherUnit(), MaxHold: l.hold(),
	}
}

// MaxCapacity is the largest integer a structured header field can hold (RFC
// 9651, 3.3.1).
const MaxCapacity = quantity.MaxTokens

const defaultMaxHold = time.Minute // of slots

// NoHold is what WithMaxHold makes of 0, which is the MaxHold of limits without
// one.
const NoHold time.Duration = math.MinInt64

func (l Limit) hold() time.Duration {
	if l.MaxHold == 0 && l.Mode == bucket.Concurrent {
		return defaultMaxHold
	}
	return l.MaxHold
}

func (l Limit) UnitName() string { return cmp.Or(l.Unit, quantity.Requests) }

func (l Limit) OtherUnit() bool { return l.UnitName() != quantity.Requests }

// NoLocation is what In makes of nil, which is the Location of limits without a
// calendar.
var NoLocation = time.FixedZone("nil", 0)

// OnCalendar reports whether l's periods are those of a calendar.
func (l Limit) OnCalendar() bool {
	return l.Location != nil || !l.Anchor.IsZero() || l.RefillInterval > 0 && l.RefillInterval%bucket.Month == 0
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

// NoAnchor is what Anchored makes of the zero time, which is the Anchor of
// limits without one.
var NoAnchor = time.Time{}.Add(1)

const anchorRange = "must be between 1900 and 2200"

func outOfRange(anchor time.Time) bool {
	year := anchor.UTC().Year()
	return year < 1900 || year > 2200
}

// Scale returns the limit of n times the tokens: its Capacity and its
// RefillRate, as far as a limit can have them. It is at least one token.
func (l Limit) Scale(n float64) Limit {
	most := int64(MaxCapacity)
	if l.Mode == bucket.Concurrent {
		most = maxSlots
	}
	capacity := product(float64(l.Capacity), n)
	if nearest := math.Round(capacity); math.Abs(capacity-nearest) < 1e-9*nearest { // a float64 can't hold most shares of 1/n
		capacity = nearest
	}
	l.Capacity = most
	if capacity < float64(most) {
		l.Capacity = max(1, int64(capacity))
	}
	if l.Mode == bucket.Concurrent {
		return l
	}
	// The Capacity may have been rounded up to 1, so keep the bucket filling
	// within bucket.MaxFill.
	slowest := float64(l.Capacity) * (float64(l.RefillInterval) / float64(bucket.MaxFill))
	if l.OnCalendar() {
		slowest = max(slowest, float64(l.Capacity)/bucket.MaxPeriods)
	}
	l.RefillRate = max(product(l.RefillRate, n), slowest*(1+1e-12)) // which a float64 may have rounded down
	rate := l.RefillRate
	for ten := 1e9; ten >= 1 && l.Mode != bucket.Continuous && !l.Spec().Exact(); ten /= 10 { // too many decimals for steps of this Capacity
		l.RefillRate = math.Ceil(rate*ten) / ten
	}
	return l
}

// product is x × n of the decimal fractions that x and n are written as: three
// times 0.1 is 0.3.
func product(x, n float64) float64 {
	a, b := quantity.Decimal(x), quantity.Decimal(n)
	switch {
	case a == nil: // it is no number
		return x * n
	case b == nil:
		return 0
	}
	f, _ := a.Mul(a, b).Float64()
	return f
}

const (
	// maxSlots bounds the slots of a limit: with so many in use, a decision
	// keeps a Redis server busy for a fifth longer than with one.
	maxSlots = 1000
	// MaxHold is from leastHold to mostHold.
	leastHold, mostHold = time.Millisecond, 30 * 24 * time.Hour
)

func (l Limit) slotMistakes(wrong func(name string, value any, reason string)) {
	if l.Capacity < 1 || l.Capacity > maxSlots {
		wrong("Capacity", l.Capacity, slotRange)
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

var slotRange = "must be from 1 to " + strconv.Itoa(maxSlots) + " slots"

func (l Limit) holdMistakes(wrong func(name string, value any, reason string)) {
	switch reason := BadHold(l.MaxHold); {
	case l.MaxHold == 0:
	case l.MaxHold == NoHold:
		wrong("MaxHold", time.Duration(0), reason)
	case reason != "" && l.MaxHold > 0 && l.MaxHold < 100*time.Microsecond: // a number of seconds without a unit
		wrong("MaxHold", l.MaxHold, fmt.Sprintf("%s: a number without a unit counts nanoseconds, so write %d*time.Second if you mean that", reason, int64(l.MaxHold)))
	case reason != "":
		wrong("MaxHold", l.MaxHold, reason)
	case l.Mode != bucket.Concurrent && !l.OtherUnit():
		wrong("MaxHold", l.MaxHold, "must be left out here: it is for slots, and for limits of another unit than requests, of which a request takes an estimate")
	}
}

// BadHold returns why no limit can have a MaxHold that is given, or "".
func BadHold(hold time.Duration) string {
	if hold < leastHold || hold > mostHold {
		return "must be from 1ms to 720h (30 days)"
	}
	return ""
}
