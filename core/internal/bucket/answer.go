package bucket

import (
	"math"
	"math/bits"
	"slices"
)

// Answer is what a [Request] is told: the decision, and what the limits have
// left after it.
type Answer struct {
	Allowed bool
	Penalty bool   // the denial made a debt: see [Rate.Penalty]
	Source  Source // who decided; the zero value is FromStore

	Now     int64  // the instant of the decision, in µs since 1970 on the store's clock
	Granted int64  // how many times
	Due     int64  // Reserve: when the tokens are due, in µs since 1970
	Levels  Levels // of the request's limits
}

// Left is what a limit has left.
type Left struct {
	Units int64 // below 0: a debt
	Ready int64 // in how many µs it has what was asked for; if that was granted, a token
	Full  int64 // in how many µs at most it is full, and its cut is paid
}

// Decided sets Allowed, from what a store has found out.
func (a *Answer) Decided(r *Request) {
	if a.Allowed = a.Granted > 0; r.Dry {
		a.Found(r)
	}
}

// Found sets Allowed of a request that took nothing, because it was Dry or
// another one was denied: whether all limits have what it asked for.
func (a *Answer) Found(r *Request) {
	a.Allowed = true
	for i := range r.Set.Rates {
		a.Allowed = a.Allowed && a.Levels.At(i).Ready == 0
	}
}

// Remaining is how many whole tokens the i-th limit of p has left.
func (a *Answer) Remaining(p *LimitSet, i int) int64 {
	return max(0, a.Levels.At(i).Units/p.Rates[i].Unit)
}

// Debt is how many tokens the i-th limit of p owes, rounded up.
func (a *Answer) Debt(p *LimitSet, i int) int64 {
	unit := p.Rates[i].Unit
	return max(0, (unit-1-a.Levels.At(i).Units)/unit)
}

// Never is the delay of a request that can never be granted.
const Never = math.MaxInt64

// RetryAfter is how long, in µs, until the i-th limit of p has n tokens; Never
// if n, or n and a floor, are above its Capacity. n must be what was denied, or 1
// if a was allowed.
func (a *Answer) RetryAfter(p *LimitSet, i int, n int64) int64 {
	ready := a.Levels.At(i).Ready
	if n > p.Rates[i].Capacity || ready == Forever {
		return Never
	}
	return ready
}

// ResetAfter is how long, in µs, until the i-th limit of p is full.
func (a *Answer) ResetAfter(i int) int64 { return a.Levels.At(i).Full }

// NextStep is how long, in µs, until the next step of the i-th limit of p,
// whether or not its bucket is full by then.
func (a *Answer) NextStep(p *LimitSet, i int) int64 {
	rate, l := &p.Rates[i], a.Levels.At(i)
	switch {
	case rate.Steps == OnCalendar:
		return rate.Calendar.At(a.Now).End - a.Now
	case rate.Steps == OnClock:
		return rate.Step - (a.Now - floorTo(a.Now, rate.Step))
	case l.Full == 0:
		return rate.Step
	}
	return l.Full - (l.Full-1)/rate.Step*rate.Step
}

// EarnedIn is how long, in µs, a refill takes to bring as many tokens as the
// i-th limit of p has left: t in the RateLimit header field.
func (a *Answer) EarnedIn(p *LimitSet, i int) int64 {
	rate := &p.Rates[i]
	return mulDiv(a.Levels.At(i).Units, rate.Step, rate.Gain)
}

// Age changes the delays to what they are so many µs later. a must share its
// levels with no other answer.
func (a *Answer) Age(p *LimitSet, micros int64) {
	a.Now += micros
	for i := range p.Rates {
		l := a.Levels.At(i)
		l.Ready, l.Full = max(0, l.Ready-micros), max(0, l.Full-micros)
	}
}

// mulDiv is a×b/c rounded up, for a, b ≥ 0 and c > 0, without overflow; at most
// Forever.
func mulDiv(a, b, c int64) int64 {
	high, low := bits.Mul64(uint64(a), uint64(b))
	low, carry := bits.Add64(low, uint64(c-1), 0)
	if high += carry; high >= uint64(c) {
		return Forever
	}
	quotient, _ := bits.Div64(high, low, uint64(c))
	return int64(min(quotient, Forever))
}

// inlineLevels is how many levels need no allocation: a policy rarely has more
// limits.
const inlineLevels = 4

// Levels is a list that needs no allocation while it is short.
type Levels struct {
	few  [inlineLevels]Left
	many *[]Left // the others; a pointer, for levels are copied with every result
}

// Grow makes room for n levels.
func (l *Levels) Grow(n int) {
	if n > inlineLevels && (l.many == nil || len(*l.many) < n-inlineLevels) {
		many := make([]Left, n-inlineLevels)
		l.many = &many
	}
}

// At returns the i-th level, for reading and writing.
func (l *Levels) At(i int) *Left {
	if i < inlineLevels {
		return &l.few[i]
	}
	return &(*l.many)[i-inlineLevels]
}

// Unshare makes l, a copy, share nothing with the levels it was copied from.
func (l *Levels) Unshare() {
	if l.many != nil {
		many := slices.Clone(*l.many)
		l.many = &many
	}
}
