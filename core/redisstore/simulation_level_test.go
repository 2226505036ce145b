package redisstore_test

import (
	"math"
	"math/big"
	"slices"

	"github.com/tokenbucket-go/ratelimit/core"
)

// The oracle's lower bound: surely says how many tokens must be there, so that
// a denial without a reason is found: the store lost tokens. They follow from
// what was taken from the bucket, at the slowest rate of the limits in use.
// Reserved tokens keep their room in the bucket until they are due, which
// leaves less for others. Where it is not known what a store must have, nothing
// must be.

// flow is tokens taken at an instant, or given back if negative.
type flow struct {
	at, n    int64
	of       *grant
	reserved bool // others could not have them before at either
}

// surely reports whether all limits must have n tokens at an instant from now
// on, if there is no request until then. A bucket counts as never used once it
// has been full under all limits that wrote it.
func (o *oracle) surely(rules []limitRule, n, at int64) bool {
	if o.leases {
		return false // other processes may have tokens on lease
	}
	for i := range rules {
		x := &rules[i]
		if n > x.capacity {
			return false
		}
		tl := o.timelines[x.name]
		if tl == nil {
			continue // never used: it is full
		}
		if !tl.holds(x, n, at) {
			return false
		}
	}
	return true
}

// holds reports whether the bucket of limit x must hold n tokens at an instant.
func (tl *timeline) holds(x *limitRule, n, at int64) bool {
	limits := make([]limitRule, 0, 4)
	least, most := x.capacity, int64(0)
	for _, u := range tl.uses {
		limits = append(limits, u.rule)
		least, most = min(least, u.rule.capacity), max(most, u.rule.capacity)
		if u.rule.mode != x.mode || u.rule.mode != core.Continuous && !u.rule.sameSteps(x) {
			return false // the time since one limit's last step may never count for the other
		}
		if u.rule.mode != core.Continuous && u.rule.den != x.den {
			return false // nor a part of a token that only one of them has
		}
	}
	if len(limits) > 1 && slices.ContainsFunc(limits, func(y limitRule) bool { return y.faster(x) || x.faster(&y) }) {
		return false // what a third definition of another rate has is only bounded from above
	}
	reserved := slices.ContainsFunc(tl.flows, func(f flow) bool { return f.reserved })
	if least < most && reserved {
		return false // a lower capacity cuts reservations made under a higher one, and leaves a debt
	}
	if tl.delayed() || len(tl.backs()) > 0 && least < most {
		return false // a denial that notes a step back cuts the bucket to its capacity
	}
	// With several definitions of a limit that refills at once, a store may
	// take up to twice as long until the bucket counts as never used. A write
	// under the smallest capacity cuts the bucket, which must then fill up for
	// the others.
	exact := len(limits) == 1 || tl.longUnused(limits, most, at)
	if x.mode == core.Continuous {
		exact = true
		for j := range limits {
			since := max(tl.written, tl.oracle.returned)
			exact = exact && (least == most || float64(least)+tl.regained(&limits[j], since, at-rounding(limits, at-since)) >= float64(most))
		}
	}
	exact = exact && (len(limits) == 1 || !reserved) // a store counts from the end of the last hold
	if exact && len(limits) > 0 && at == tl.oracle.now && tl.least(limits, least, most, at) >= float64(most) {
		return true // full under all limits that wrote it
	}
	slack := 0.0
	if len(limits) > 1 || len(limits) == 1 && limits[0] != *x {
		slack = 0.5 // one of the limits rounds down parts of a token that are too small for it
	}
	if tl.taken() <= float64(x.capacity-n)-1 { // 1: what rounding takes
		return true
	}
	return tl.least(append(limits, *x), least, least, at)+float64(x.capacity-least) >= float64(n)+slack
}

// taken returns how many tokens were taken. No bucket lacks more.
func (tl *timeline) taken() float64 {
	taken := int64(0)
	for _, f := range tl.flows {
		taken += max(0, f.n)
	}
	return float64(taken)
}

// longUnused reports whether a bucket had the time to fill up twice, in steps
// of the slowest of limits, since its last write.
func (tl *timeline) longUnused(limits []limitRule, capacity, at int64) bool {
	last := max(tl.written, tl.oracle.returned)
	for _, f := range tl.flows {
		if last = max(last, f.at); f.reserved {
			return false
		}
	}
	for i := range limits {
		num, den := limits[i].perStep()
		steps := (2*capacity*den+num-1)/num + 2
		if at-last < steps*limits[i].longestStep() {
			return false
		}
	}
	return true
}

// delayed reports whether the clock was set back after a reservation. A store
// does not know how much of the Delay had passed, so it may hold the tokens for
// longer.
func (tl *timeline) delayed() bool {
	backs := tl.backs()
	return len(backs) > 0 && slices.ContainsFunc(tl.flows, func(f flow) bool { return f.reserved && f.of.asked <= backs[len(backs)-1].at })
}

// least returns how many tokens a bucket holds at least, less a millionth
// unless it is full at top. A write may have cut it to the capacity.
func (tl *timeline) least(limits []limitRule, capacity, top, at int64) float64 {
	level, taken, reserved := float64(top), int64(0), int64(0)
	for i := len(tl.flows) - 1; i >= 0; i-- {
		f := &tl.flows[i]
		if f.at > at || f.at == at && f.reserved {
			reserved += f.n
			continue
		}
		gained, to := math.Inf(1), at-rounding(limits, at-f.at)
		for j := range limits {
			gained = min(gained, tl.regained(&limits[j], f.at, to))
		}
		level = min(level, float64(capacity)+gained-float64(taken)-1e-6, float64(capacity)+gained-float64(taken+f.n)-1e-6)
		taken += f.n
	}
	return min(level, float64(top)) - float64(reserved)
}

// rounding is by how much less a store may count of a time: it rounds the
// levels of other limits by a millionth.
func rounding(limits []limitRule, micros int64) int64 {
	if len(limits) == 1 {
		return 0
	}
	return 2 + micros/1_000_000
}

// flow records tokens that were taken or came back.
func (tl *timeline) flow(f flow) {
	i := len(tl.flows)
	for i > 0 && tl.flows[i-1].at > f.at {
		i--
	}
	tl.flows = slices.Insert(tl.flows, i, f)
}

// regained returns how many tokens refill from s to t at least. The part of a
// step before the clock was set back is lost.
func (tl *timeline) regained(x *limitRule, s, t int64) float64 {
	if s = max(s, tl.clean); s >= t {
		return 0
	}
	if x.mode == core.Continuous {
		return float64(t-s) * float64(x.num) / float64(x.den) / float64(x.interval)
	}
	steps := (t - s) / x.interval
	if x.mode == core.Aligned {
		ahead := tl.oracle.wall - tl.oracle.now
		steps = x.step(t+ahead) - x.step(s+ahead) // no step back since clean
	}
	num, den := x.perStep()
	return float64(steps) * float64(num) / float64(den)
}

// whole returns n as a fraction.
func whole(n int64) *big.Rat { return new(big.Rat).SetInt64(n) }

// roundUp returns r rounded up. r must not be negative.
func roundUp(r *big.Rat) int64 {
	n := new(big.Int).Add(r.Num(), new(big.Int).Sub(r.Denom(), big.NewInt(1)))
	return n.Quo(n, r.Denom()).Int64()
}
