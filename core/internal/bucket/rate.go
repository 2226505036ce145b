package bucket

import (
	"encoding/binary"
	"hash/fnv"
	"math/big"
	"math/bits"
	"time"

	"github.com/tokenbucket-go/ratelimit/core/internal/calendar"
)

// Rate is a limit in whole numbers, so that Lua's doubles and Go's int64
// compute exactly the same.
//
// A token is Unit units. Every Step microseconds the bucket gains Gain units.
// The Continuous mode has the smallest step that the numbers allow: 1 µs for
// all but extreme limits. Example: 17 tokens every 30 s are 17 units a
// microsecond, and 30,000,000 units a token, so nothing is ever rounded.
//
// A full bucket is at most maxUnits and a debt at most MaxDebt, so every sum
// stays below 2^53, the last integer up to which doubles are exact.
type Rate struct {
	Tag uint32 // a hash of the limit's name, by which stored state of a key is the limit's
	// StepsHash is a hash of Step, Aligned and the calendar. Definitions with
	// different steps have different ones, but for chance. With Capacity, Unit,
	// Gain and Step it identifies a definition.
	StepsHash uint16
	Aligned   bool               // steps are multiples of Step on the Unix clock, or periods of the calendar
	Other     bool               // the limit counts another unit than requests, so a request's N is not for it
	Slots     bool               // tokens are slots: they come back as soon as nothing holds them
	Hold      int64              // µs for which what Acquire takes is held, before it comes back; 0: it is used at once
	Capacity  int64              // tokens
	Unit      int64              // units in a token
	Full      int64              // units in a full bucket: Capacity × Unit
	Gain      int64              // units gained every step, at most what fills the bucket from the deepest debt
	Step      int64              // µs
	Calendar  *calendar.Calendar // its periods are the steps, and Step is their mean length; nil: all steps are Step long

	foreign  bool  // it is on a calendar whose periods are not known: see Rate.writer
	maxSteps int64 // the most steps that a delay may have
	maxDebt  int64 // the most units that a debt may have
}

const (
	maxUnits = 1<<50 - 1
	// fineUnit is how many units a token has at least, if the Capacity allows:
	// what one definition leaves to another is rounded down to a unit, which
	// must not cost tokens.
	fineUnit = 1 << 18
	// MaxDebt is the largest debt in units: twice the largest bucket, and for
	// all but extreme limits thousands of times the Capacity.
	MaxDebt = 1<<51 - 1
	// RoundingError is the relative error of one division and one
	// multiplication of doubles.
	RoundingError = 1.0 / (1 << 52)
	// Forever is the longest delay, in µs: 285 years. Only state that another
	// policy stored can lead to more.
	Forever = 1 << 53
	// Latest is the last instant that a clock may show, in µs since 1970: in
	// 2112. Instants that lie the longest delay ahead of it stay below 2^53.
	Latest = 1 << 52
)

// NewRate returns the Rate of s, which must be valid.
func NewRate(s Spec, tag uint32) Rate {
	if s.Mode == Concurrent { // all but what is held is there: see refill
		s.RefillRate, s.RefillInterval = 1, time.Microsecond
	}
	r := Rate{
		Tag: tag, Aligned: s.Mode == Aligned, Other: s.Other, Slots: s.Mode == Concurrent, Hold: s.MaxHold.Microseconds(), Capacity: s.Capacity, Step: s.step(),
	}
	perStep := decimal(s.RefillRate)
	if s.Mode == Continuous || r.Slots {
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
	case finer.Sign() > 0 && !r.Slots: // a slot is one unit
		gain, unit = new(big.Int).Mul(gain, finer), new(big.Int).Mul(unit, finer)
	}
	r.Unit = unit.Int64()
	r.Full = r.Unit * r.Capacity
	if most := big.NewInt(r.Full + MaxDebt); gain.Cmp(most) > 0 {
		gain = most // more would overflow the bucket in any case
	}
	r.Gain = max(1, gain.Int64()) // 0 only for a tiny share of a limit
	r.maxSteps, r.maxDebt = Forever/r.Step, MaxDebt
	if r.Calendar = s.calendar(); r.Calendar != nil {
		r.maxSteps = 2 * s.mostPeriods()
		r.maxDebt = min(MaxDebt, mulDiv(min(r.Gain, r.Full), s.mostPeriods(), 1)) // a period pays no more than fills the bucket
	}
	h := fnv.New32a()
	h.Write(binary.BigEndian.AppendUint64(nil, uint64(r.Step)))
	if r.Aligned {
		h.Write([]byte{1})
	}
	if r.Calendar != nil {
		h.Write([]byte(s.Location.String()))
		h.Write(binary.BigEndian.AppendUint64(nil, uint64(s.Anchor.UnixMicro())))
	}
	r.StepsHash = uint16(h.Sum32()>>16) ^ uint16(h.Sum32())
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

// units is n tokens in units. It does not overflow: of more tokens than fill
// the bucket from the deepest debt it counts so many.
func (r *Rate) units(n int64) int64 { return min(n, (r.Full+MaxDebt)/r.Unit+1) * r.Unit }

// floorTo rounds t down to a multiple of step; t may be negative.
func floorTo(t, step int64) int64 {
	rest := t % step
	if rest < 0 {
		rest += step
	}
	return t - rest
}

// mulDiv is a×b/c rounded up, for a, b ≥ 0 and c > 0, without overflow; at most
// Forever.
func mulDiv(a, b, c int64) int64 {
	hi, lo := bits.Mul64(uint64(a), uint64(b))
	lo, carry := bits.Add64(lo, uint64(c-1), 0)
	hi += carry
	if hi >= uint64(c) {
		return Forever
	}
	quotient, _ := bits.Div64(hi, lo, uint64(c))
	return int64(min(quotient, Forever))
}

// Exact reports whether the tokens of a step are a whole number of units, or
// lose less than a millionth by rounding down. It is for the Stepped and
// Aligned modes: the Continuous mode chooses its steps.
func (s Spec) Exact() bool { return precise(decimal(s.RefillRate), unitLimit(s.Capacity)) }

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
	tokens := steps.Mul(steps, big.NewRat(min(r.Gain, r.Full), r.Unit))
	total := new(big.Int).Quo(tokens.Num(), tokens.Denom())
	return total.Add(total, big.NewInt(s.Capacity))
}
