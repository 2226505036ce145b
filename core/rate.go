package core

import (
	"encoding/binary"
	"hash/fnv"
	"math"
	"math/big"
	"math/bits"
)

// rate is a Limit in whole numbers, so that Lua's doubles and Go's int64 compute the same, exactly.
//
// A token is `unit` units. Every `step` microseconds the bucket gains `gain` units. Continuous is
// Stepped with the smallest step the numbers allow: 1 µs for all but extreme limits. 17 tokens
// every 30 s are 17 units a microsecond, 30,000,000 units a token: nothing is ever rounded.
//
// A full bucket is at most maxUnits and a debt at most maxDebt, so every sum stays below 2^53, the
// last integer up to which doubles are exact, and level/unit×unit rounds back to the same level.
type rate struct {
	tag      uint32 // tells the limits of one key apart in stored state
	steps    uint16 // tells apart the steps that definitions of one limit have
	aligned  bool   // steps are multiples of step on the Unix clock
	capacity int64  // tokens
	unit     int64  // units in a token
	full     int64  // units in a full bucket: capacity × unit
	gain     int64  // units gained every step, at most what fills the bucket from the deepest debt
	step     int64  // µs
	longest  int64  // the most steps in a delay that is told: forever / step
	fill     fill
}

// fill bounds how long a bucket takes to be full: no longer than `pace` µs for each token that it lacks of
// `capacity`; and, when pace is below 0, which stands for steps, capacity times -pace longer. Of several definitions
// of a limit it is the largest of both. Numbers are rounded up.
type fill struct{ capacity, pace float32 }

// and is the fill of buckets that f or g bounds.
func (f fill) and(g fill) fill {
	pace := max(f.pace, -f.pace, g.pace, -g.pace)
	if f.pace < 0 || g.pace < 0 {
		pace = -pace
	}
	return fill{max(f.capacity, g.capacity), pace}
}

// from is how many µs it takes from so many tokens.
func (f fill) from(tokens float64) int64 {
	capacity, pace := float64(f.capacity), math.Abs(float64(f.pace))
	micros := float64((capacity - tokens) * pace)
	if f.pace < 0 {
		micros += float64(capacity * pace)
	}
	return int64(math.Ceil(max(0, min(forever, micros))))
}

// upTo32 is the smallest float32 that is not below x.
func upTo32(x float64) float32 {
	f := float32(x)
	if float64(f) < x {
		f = math.Nextafter32(f, float32(math.Inf(1)))
	}
	return f
}

const (
	maxUnits = 1<<50 - 1
	// maxDebt is how many units may be promised ahead: twice what any bucket holds, and for all but
	// extreme limits billions of times. Below 2^51 the two roundings of level/unit×unit, each at
	// most 2^-53 of it, add up to less than half a unit.
	maxDebt = 1<<51 - 1
	// roundingError is that of one division and one multiplication.
	roundingError = 1.0 / (1 << 52)
	// forever is the longest delay told, in µs: 285 years. Only stored state that another policy
	// wrote can ask for more.
	forever = 1 << 53
	// latest is how far a clock may go, in µs since 1970: into 2112. Instants that lie the longest
	// delay ahead of it stay below 2^53.
	latest = 1 << 52
)

// newRate needs a valid l.
func newRate(l Limit, tag uint32) rate {
	r := rate{tag: tag, aligned: l.Mode == Aligned, capacity: l.Capacity}
	perStep := decimal(l.RefillRate)
	if l.Mode == Continuous {
		r.step, perStep = continuousStep(l)
	} else {
		r.step = l.step() / 1000
	}
	room := roomFor(l.Capacity)
	unit, gain := perStep.Denom(), perStep.Num()
	if unit.Cmp(room) > 0 {
		// Not to be had exactly: round the rate down, by less than one unit a step.
		gain = new(big.Int).Quo(new(big.Int).Mul(gain, room), unit)
		unit = room
	}
	r.unit = unit.Int64()
	r.full = r.unit * r.capacity
	if most := big.NewInt(r.full + maxDebt); gain.Cmp(most) > 0 {
		gain = most // what overflows is lost anyway
	}
	r.gain = max(1, gain.Int64()) // 0 only for a tiny share of a limit
	r.longest = forever / r.step
	pace := float64(r.step) * float64(r.unit) / float64(r.gain)
	r.fill = fill{upTo32(float64(r.capacity)), upTo32(pace * (1 + 1e-9))}
	if r.aligned || r.step > 1 {
		r.fill.pace = -upTo32(max(pace, float64(r.step)/float64(r.capacity)) * (1 + 1e-9))
	}
	if !r.aligned {
		h := fnv.New32a()
		h.Write(binary.BigEndian.AppendUint64(nil, uint64(r.step)))
		r.steps = uint16(h.Sum32()>>16) ^ uint16(h.Sum32())
	}
	return r
}

// roomFor is the most units a token of a bucket can have.
func roomFor(capacity int64) *big.Int { return big.NewInt(maxUnits / capacity) }

// continuousStep returns the smallest step of up to 1 ms, in µs, whose gain is an exact number of
// units, and the tokens it brings. Where none is exact it returns one whose gain is at least 2^20
// units, which newRate rounds down by less than one: a rate that is a millionth too low.
func continuousStep(l Limit) (step int64, perStep *big.Rat) {
	perMicro, room := l.perMicro(), roomFor(l.Capacity)
	for step = 1; step <= 1000; step++ {
		perStep = new(big.Rat).Mul(perMicro, new(big.Rat).SetInt64(step))
		if perStep.Denom().Cmp(room) <= 0 {
			return step, perStep
		}
	}
	for step = 1; ; step *= 10 {
		perStep = new(big.Rat).Mul(perMicro, new(big.Rat).SetInt64(step))
		if precise(perStep, room) || step > maxFill.Microseconds()/10 {
			return step, perStep
		}
	}
}

// precise reports whether rounding perStep down to one of room parts of a token changes it by less
// than a millionth.
func precise(perStep *big.Rat, room *big.Int) bool {
	return perStep.Denom().Cmp(room) <= 0 || perStep.Cmp(new(big.Rat).SetFrac(big.NewInt(1<<20), room)) >= 0
}

// level is what a limit's bucket has at an instant.
type level struct {
	units int64 // tokens × unit; below 0 when tokens were promised ahead
	at    int64 // µs since 1970: the last step counted, in the Aligned mode the last refill
}

// steppedAt is the step from which l refills: Aligned steps are found anew on the clock at each refill, so that
// a limit may change its mode and no time counts twice.
func (r *rate) steppedAt(l level) int64 {
	if r.aligned {
		return floorTo(l.at, r.step)
	}
	return l.at
}

// refill brings l, which is not ahead of now, up to now in a bucket of which `out` tokens are held: whole steps count,
// and l.at moves on by just those.
func (r *rate) refill(l level, out, now int64) level {
	from := r.steppedAt(l)
	steps := now - from
	if r.step > 1 { // mostly it is 1, and a division costs as much as all else here
		steps /= r.step
	}
	if l.at = from + steps*r.step; r.aligned {
		l.at = now
	}
	room := r.full
	if out > 0 {
		room = r.room(out)
	}
	// Lua's doubles don't wrap around; here a product above 64 bits is more than any bucket lacks.
	if high, gained := bits.Mul64(uint64(steps), uint64(r.gainTo(l, out))); l.units < room && high == 0 && gained < uint64(room-l.units) {
		l.units += int64(gained)
	} else {
		l.units = room
	}
	return l
}

// gainTo is what a step brings to l: no more than what fills the bucket, also where a debt is to be paid that nobody
// holds any more.
func (r *rate) gainTo(l level, out int64) int64 {
	if r.gain > r.full && l.units < 0 && -l.units/r.unit >= out && -l.units > out*r.unit {
		return r.full
	}
	return r.gain
}

// wait is how many µs after now a refilled l has `need` units, if there is room for them.
func (r *rate) wait(l level, need, out, now int64) int64 {
	if l.units >= need {
		return 0
	}
	gain := r.gainTo(l, out)
	steps := (need - l.units + gain - 1) / gain
	if steps > r.longest {
		return forever
	}
	return steps*r.step - (now - r.steppedAt(l))
}

// nextStep is how many µs after now a refilled l gains its next tokens.
func (r *rate) nextStep(l level, now int64) int64 { return r.step - (now - r.steppedAt(l)) }

// level is the stored s in this rate's units, clamped to its capacity and to the debt it can hold.
// What these units stored comes back exactly: the margin is what rounding may have taken. A fraction
// that other units stored is rounded down.
//
// A record tells the instant of its write. If it was written in the same steps they go on: keep is one of them. If
// not they begin with the write, so that no time counts twice.
func (r *rate) level(s *record) level {
	units := float64(s.tokens * float64(r.unit))
	units = math.Floor(units + float64(math.Abs(units)*roundingError))
	l := level{int64(max(-maxDebt, min(units, float64(r.full)))), s.at}
	if r.step > 1 && !r.aligned && s.steps == r.steps {
		l.at = s.keep + floorTo(s.at-s.keep, r.step)
	}
	return l
}

// units is n tokens in units; n is what a bucket can hold at most.
func (r *rate) units(n int64) int64 { return min(n, r.capacity) * r.unit }

// floorTo rounds t down to a multiple of step; t may be negative.
func floorTo(t, step int64) int64 {
	rest := t % step
	if rest < 0 {
		rest += step
	}
	return t - rest
}
