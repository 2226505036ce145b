package oracle

import (
	"math/big"
	"math/bits"
	"strconv"
	"time"

	"github.com/tokenbucket-go/ratelimit/core"
)

// definition is a limit in the oracle's own numbers. Times are µs, instants µs
// since 1970.
type definition struct {
	core.Limit
	gain     *big.Rat // tokens of a step, at most a full bucket
	capped   bool     // gain would be more
	step     int64    // from one step to the next; 1 for Continuous, the longest period of a calendar
	shortest int64    // the shortest period of a calendar, else step
	hold     int64    // for how long a request holds what it takes; 0: it holds nothing
	penalty  int64    // until the debt is paid that a denial makes; 0: it makes none

	// Gain is num/den tokens where exact is set. Then int64 holds everything in
	// parts of 1/den token, and no store has to round.
	num, den int64
	exact    bool

	period struct{ number, from, to int64 } // of the last position on a calendar
}

const day = int64(24 * time.Hour / time.Microsecond)

// define returns the definition of a valid limit.
func define(l core.Limit) *definition {
	d := &definition{Limit: l, hold: l.MaxHold.Microseconds(), penalty: l.Penalty.Microseconds()}
	if l.Mode == core.Concurrent {
		if d.hold == 0 {
			d.hold = time.Minute.Microseconds()
		}
		return d
	}
	d.gain, _ = new(big.Rat).SetString(strconv.FormatFloat(l.RefillRate, 'g', -1, 64))
	d.step = (l.RefillInterval.Nanoseconds() + 999) / 1000
	d.shortest = d.step
	switch {
	case l.Mode == core.Continuous:
		d.gain.Mul(d.gain, big.NewRat(1000, l.RefillInterval.Nanoseconds()))
		d.step, d.shortest = 1, 1
	case d.months() > 0:
		d.step, d.shortest = d.months()*31*day+day/24, d.months()*28*day-day/24
	case d.calendar():
		d.step, d.shortest = d.step+day/24, d.step-day/24
	}
	if full := big.NewRat(l.Capacity, 1); d.gain.Cmp(full) > 0 {
		d.gain, d.capped = full, true
	}
	if num, den := d.gain.Num(), d.gain.Denom(); num.IsInt64() && den.IsInt64() {
		d.num, d.den = num.Int64(), den.Int64()
		d.exact = d.den <= 1<<50/l.Capacity
	}
	return d
}

func (d *definition) slots() bool   { return d.Mode == core.Concurrent }
func (d *definition) stepped() bool { return d.Mode == core.Stepped }
func (d *definition) calendar() bool {
	return d.Mode == core.Aligned && (d.Location != nil || !d.Anchor.IsZero())
}
func (d *definition) holds() bool          { return d.hold > 0 }
func (d *definition) countsTokens() bool   { return d.Unit == "tokens" }
func (d *definition) countsRequests() bool { return d.Unit != "tokens" }

// slow reports whether a wait, with a debt, may be longer than stores say.
func (d *definition) slow() bool {
	return 4*float64(d.Capacity)/d.RefillRate*float64(d.RefillInterval) > float64(farthest)
}

// months returns how many months a period has, or 0 if it has days.
func (d *definition) months() int64 {
	if d.RefillInterval%core.Month != 0 {
		return 0
	}
	return int64(d.RefillInterval / core.Month)
}

// cost returns how many tokens of the limit a request takes.
func (d *definition) cost(requests, tokens int64) int64 {
	if d.countsTokens() {
		return tokens
	}
	return requests
}

// position numbers the steps on the clock: after one instant and up to another
// there are as many steps as the difference of their positions. It is of no use
// for Stepped, whose steps count from the first use.
func (d *definition) position(at int64) int64 {
	switch {
	case d.Mode != core.Aligned:
		return at
	case !d.calendar():
		return at / d.step
	}
	if at < d.period.from || at >= d.period.to {
		k := (at - d.begins(0)) / d.step
		for d.begins(k) > at {
			k--
		}
		for d.begins(k+1) <= at {
			k++
		}
		d.period.number, d.period.from, d.period.to = k, d.begins(k), d.begins(k+1)
	}
	return d.period.number
}

// every returns how many positions there are from one step to the next.
func (d *definition) every() int64 {
	if d.stepped() {
		return d.step
	}
	return 1
}

// next returns the first step of an Aligned definition after an instant.
func (d *definition) next(at int64) int64 {
	if !d.calendar() {
		return (at/d.step + 1) * d.step
	}
	_ = d.position(at)
	return d.period.to
}

// begins returns when the k-th period of a calendar begins. Without an anchor,
// number 0 is that of 1 January 2001, a Monday.
func (d *definition) begins(k int64) int64 {
	location := d.Location
	if location == nil {
		location = time.UTC
	}
	from := time.Date(2001, time.January, 1, 0, 0, 0, 0, location)
	if !d.Anchor.IsZero() {
		from = d.Anchor.In(location)
	}
	year, month, date := from.Date()
	if months := d.months(); months > 0 {
		first := time.Date(year, month+time.Month(k*months), 1, 0, 0, 0, 0, time.UTC)
		year, month = first.Year(), first.Month()
		date = min(date, first.AddDate(0, 1, -1).Day())
	} else {
		date += int(k * d.RefillInterval.Microseconds() / day)
	}
	return first(time.Date(year, month, date, from.Hour(), from.Minute(), from.Second(), from.Nanosecond(), time.UTC), location)
}

// first returns the first instant at which clocks in a location show what wall
// shows in UTC. If they skip that, it is when they are set forward.
func first(wall time.Time, location *time.Location) int64 {
	_, before := wall.Add(-36 * time.Hour).In(location).Zone()
	_, after := wall.Add(36 * time.Hour).In(location).Zone()
	early := wall.Add(-time.Duration(max(before, after)) * time.Second)
	late := wall.Add(-time.Duration(min(before, after)) * time.Second)
	for _, at := range []time.Time{early, late} {
		if _, offset := at.In(location).Zone(); at.Add(time.Duration(offset) * time.Second).Equal(wall) {
			return at.UnixMicro()
		}
	}
	_, set := early.In(location).ZoneBounds()
	return set.UnixMicro()
}

// exceeds reports whether tokens are more than a capacity and the gain of so
// many steps. A Continuous definition that is rounded has longer steps than 1
// µs, and may exceed by one: MaxIn says how far.
func (d *definition) exceeds(tokens, capacity, steps int64) bool {
	over := tokens - capacity
	if over <= 0 {
		return false
	}
	if d.exact {
		high, low := bits.Mul64(uint64(d.num), uint64(steps))
		return high == 0 && low < uint64(over*d.den)
	}
	refill := new(big.Rat).SetInt64(steps)
	more := new(big.Rat).SetInt64(over).Cmp(refill.Mul(refill, d.gain)) > 0
	return more && (d.Mode != core.Continuous || tokens > d.MaxIn(time.Duration(steps)*time.Microsecond))
}
