// Package limit is what a limit means, whoever writes it: what is wrong with it,
// how it is named, and its text. It is a package because policies in JSON and
// header fields need it, and core imports both. Package core documents its
// fields.
package limit

import (
	"math"
	"time"

	"github.com/tokenbucket-go/ratelimit/core/internal/bucket"
	"github.com/tokenbucket-go/ratelimit/core/internal/calendar"
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

// MaxCapacity is the largest integer a structured header field can hold (RFC 9651, 3.3.1).
const MaxCapacity = quantity.MaxTokens

// DefaultMaxHold is the MaxHold of slots without one.
const DefaultMaxHold = time.Minute

// NoHold is what WithMaxHold makes of 0, which is the MaxHold of limits without one.
const NoHold time.Duration = math.MinInt64

// hold is l's MaxHold with its default.
func (l Limit) hold() time.Duration {
	if l.MaxHold == 0 && l.Mode == bucket.Concurrent {
		return DefaultMaxHold
	}
	return l.MaxHold
}

// UnitName is what l counts.
func (l Limit) UnitName() string {
	if l.Unit == "" {
		return quantity.Requests
	}
	return l.Unit
}

// OtherUnit reports whether l counts something else than requests.
func (l Limit) OtherUnit() bool { return l.UnitName() != quantity.Requests }

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
