package bucket

import (
	"math/big"
	"time"
)

// Rate is a limit in whole numbers, so that Lua's doubles and Go's int64
// compute exactly the same.
//
// A token is Unit units. Every Step microseconds the bucket gains Gain units.
// The Continuous mode has the smallest step that the numbers allow: 1 µs for
// all but extreme limits. Example: 17 tokens every 30 s are 17 units a
// microsecond, and 30,000,000 units a token, so nothing is ever rounded.
//
// A full bucket has at most maxUnits, and at most MaxUsed units are used, so
// every sum stays below 2^53, the last integer up to which doubles are exact.
type Rate struct {
	Tag      uint32 // a hash of the limit's name, by which stored state of a key is the limit's
	Steps    Steps  // where its steps begin
	Other    bool   // the limit counts another unit than requests, so a request's N is not for it
	Slots    bool   // tokens are slots: they come back as soon as nothing holds them
	Hold     int64  // µs for which what is taken is held, before it comes back; 0: it is used at once
	Penalty  int64  // µs until the debt is paid that a denial makes; 0: it makes none
	Capacity int64  // tokens
	Unit     int64  // units in a token
	Full     int64  // units in a full bucket: Capacity × Unit
	Gain     int64  // units gained every step, at most Full; 0: slots
	Step     int64  // µs; on a calendar the longest period
	Calendar *Calendar
}

// Steps is where the steps of a limit begin.
type Steps uint8

const (
	FromUse    Steps = iota // at the bucket's first use; continuous limits have steps of 1 µs
	OnClock                 // at multiples of Step on the Unix clock
	OnCalendar              // at the starts of the periods of a calendar
)

const (
	maxUnits = 1<<50 - 1
	// fineUnit is how many units a token has at least, if the Capacity allows: a
	// definition that changes rounds what was used up to a unit, which must not
	// cost a token.
	fineUnit = 1 << 18
)

// NewRate returns the Rate of s, which must be valid.
func NewRate(s Spec, tag uint32) Rate {
	if s.Mode == Concurrent {
		return Rate{Tag: tag, Slots: true, Other: s.Other, Hold: s.MaxHold.Microseconds(), Capacity: s.Capacity, Unit: 1, Full: s.Capacity, Step: 1}
	}
	r := Rate{Tag: tag, Other: s.Other, Hold: s.MaxHold.Microseconds(), Penalty: s.Penalty.Microseconds(), Capacity: s.Capacity, Step: s.step()}
	perStep := decimal(s.RefillRate)
	if s.Mode == Continuous {
		r.Step, perStep = s.continuousStep()
	}
	largest := unitLimit(s.Capacity)
	unit, gain := perStep.Denom(), perStep.Num()
	switch finer := new(big.Int).Quo(big.NewInt(min(maxUnits/s.Capacity, fineUnit)), unit); {
	case unit.Cmp(largest) > 0:
		// There are not enough units to be exact. Round the rate down, by less
		// than one unit a step.
		gain = new(big.Int).Quo(new(big.Int).Mul(gain, largest), unit)
		unit = largest
	case finer.Sign() > 0:
		gain, unit = new(big.Int).Mul(gain, finer), new(big.Int).Mul(unit, finer)
	}
	r.Unit = unit.Int64()
	r.Full = r.Unit * r.Capacity
	if full := big.NewInt(r.Full); gain.Cmp(full) > 0 {
		gain = full // a step fills the bucket at most
	}
	r.Gain = max(1, gain.Int64()) // 0 only for a tiny share of a limit
	if s.Mode == Aligned {
		r.Steps = OnClock
	}
	if r.Calendar = s.calendar(); r.Calendar != nil {
		r.Steps, r.Step = OnCalendar, r.Calendar.Longest()
	}
	return r
}

// unitLimit is the most units that a token can have in a bucket of this
// capacity.
func unitLimit(capacity int64) *big.Int { return big.NewInt(maxUnits / capacity) }

// continuousStep returns the smallest step of up to 1 ms, in µs, whose gain is
// an exact number of units, and the tokens it brings. If none is exact it
// returns one whose gain is at least 2^20 units. NewRate rounds that down by
// less than one unit, so the rate is at most a millionth too low.
func (s Spec) continuousStep() (step int64, perStep *big.Rat) {
	perMicro, largest := s.perMicro(), unitLimit(s.Capacity)
	for step = 1; step <= 1000; step++ {
		perStep = new(big.Rat).Mul(perMicro, new(big.Rat).SetInt64(step))
		if step > 1 && perStep.Cmp(new(big.Rat).SetInt64(s.Capacity)) > 0 {
			break // it would gain no more than a full bucket
		}
		if perStep.Denom().Cmp(largest) <= 0 {
			return step, perStep
		}
	}
	for step = 1; ; step *= 10 {
		perStep = new(big.Rat).Mul(perMicro, new(big.Rat).SetInt64(step))
		if precise(perStep, largest) || step > MaxFill.Microseconds()/10 {
			return step, perStep
		}
	}
}

// precise reports whether perStep loses less than a millionth if it is rounded
// down to a multiple of 1/largest token.
func precise(perStep *big.Rat, largest *big.Int) bool {
	return perStep.Denom().Cmp(largest) <= 0 || perStep.Cmp(new(big.Rat).SetFrac(big.NewInt(1<<20), largest)) >= 0
}

// Exact reports whether the tokens of a step are a whole number of units, or
// lose less than a millionth by rounding down. It is for the Stepped and
// Aligned modes: the Continuous mode chooses its steps.
func (s Spec) Exact() bool { return precise(decimal(s.RefillRate), unitLimit(s.Capacity)) }

// MaxPenalty is the longest Penalty whose debt a bucket can count.
func (s Spec) MaxPenalty() time.Duration {
	r := NewRate(s, 0)
	most := product((MaxUsed-r.Full)/r.Gain, r.Step)
	if r.Calendar != nil { // the shortest of its periods have nine tenths of the longest: 28 of 31 days, 23 of 25 hours
		most = most / 10 * 9
	}
	return time.Duration(min(most, MaxFill.Microseconds())) * time.Microsecond
}

// MaxIn is the most tokens that are admitted in any window of length d. It may
// exceed an int64.
func (s Spec) MaxIn(d time.Duration) *big.Int {
	r := NewRate(s, 0)
	steps := new(big.Rat).Quo(inMicros(d), new(big.Rat).SetInt64(r.Step))
	if r.Calendar != nil {
		steps.SetInt64(r.Calendar.MostIn(d.Microseconds()))
	} else if s.Mode != Continuous || r.Step > 1 {
		steps.SetInt(ceil(steps))
	}
	tokens := steps.Mul(steps, big.NewRat(r.Gain, r.Unit))
	total := new(big.Int).Quo(tokens.Num(), tokens.Denom())
	return total.Add(total, big.NewInt(s.Capacity))
}
