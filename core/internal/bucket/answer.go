package bucket

import (
	"math"
	"slices"
)

// Answer is the decision on a [Request], and the level of the bucket after it.
//
// Its size is a multiple of 16 bytes: a copy of any other size ends with two
// overlapping writes, and reading them soon after costs 5 ns.
type Answer struct {
	Allowed bool
	Source  Source // who decided; the zero value is FromStore
	Unused  bool   // a Take of nothing, allowed: the key has no state

	Now    int64    // the instant of the decision, in µs since 1970 on the store's clock
	Levels Levels   // of the request's limits, at Now
	Due    int64    // Reserve, Await: when the tokens are there, in µs since 1970
	Lent   int64    // Lease, AtMost: tokens taken beyond N
	Waits  *[]Waits // of each limit; nil: the delays follow from Levels
}

// Waits are the delays of one limit, in µs, where they do not follow from an
// [Answer]'s levels: while tokens are held, and where another definition of the
// limit wrote the stored state.
type Waits struct {
	Retry int64 // until the limit has the tokens that were denied; when allowed, until it has one
	Full  int64 // until the limit is full
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

// Never is the delay of a request that costs more than a limit's Capacity.
const Never = math.MaxInt64

// RetryAfter is how long, in µs, until the i-th limit of p has n tokens; Never
// if n is above its Capacity. n must be what was denied, or 1 if a was allowed.
func (a *Answer) RetryAfter(p *LimitSet, i int, n int64) int64 {
	rate := &p.Rates[i]
	switch {
	case n > rate.Capacity:
		return Never
	case a.Waits != nil:
		return (*a.Waits)[i].Retry
	}
	return rate.wait(*a.Levels.At(i), n*rate.Unit, 0, a.Now)
}

// ResetAfter is how long, in µs, until the i-th limit of p is full.
func (a *Answer) ResetAfter(p *LimitSet, i int) int64 {
	if a.Waits != nil {
		return (*a.Waits)[i].Full
	}
	rate := &p.Rates[i]
	return rate.wait(*a.Levels.At(i), rate.Full, 0, a.Now)
}

// NextStep is how long, in µs, until the next step of the i-th limit of p,
// whether or not its bucket is full by then.
func (a *Answer) NextStep(p *LimitSet, i int) int64 {
	rate := &p.Rates[i]
	if rate.Calendar != nil {
		return rate.Calendar.At(a.Now).End - a.Now
	}
	return rate.Step - (a.Now - rate.steppedAt(*a.Levels.At(i)))
}

// EarnedIn is how long, in µs, a refill takes to bring as many tokens as the
// i-th limit of p has left: t in the RateLimit header field.
func (a *Answer) EarnedIn(p *LimitSet, i int) int64 {
	rate := &p.Rates[i]
	return mulDiv(a.Levels.At(i).Units, rate.Step, rate.Gain)
}

// Age changes a to what it would be so many µs later if nothing was taken until
// then. If a has Waits, only these become shorter. a must share its levels with
// no other answer.
func (a *Answer) Age(p *LimitSet, micros int64) {
	if a.Waits == nil {
		a.AgeAround(p, 0, micros)
		return
	}
	a.Now += micros
	list := slices.Clone(*a.Waits)
	for i := range list {
		list[i] = Waits{max(0, list[i].Retry-micros), max(0, list[i].Full-micros)}
	}
	a.Waits = &list
}

// AgeAround is Age while so many tokens of every limit are held, such as those
// on a lease. a must have no Waits.
func (a *Answer) AgeAround(p *LimitSet, held, micros int64) {
	a.Now += micros
	for i := range p.Rates {
		l := a.Levels.At(i)
		*l = p.Rates[i].refill(*l, held, a.Now)
	}
}

// Add puts so many tokens into every limit of p, up to its Capacity.
func (a *Answer) Add(p *LimitSet, tokens int64) {
	for i := range p.Rates {
		a.AddTo(p, i, tokens)
	}
}

// AddTo puts so many tokens into the i-th limit of p, up to its Capacity.
func (a *Answer) AddTo(p *LimitSet, i int, tokens int64) {
	rate, l := &p.Rates[i], a.Levels.At(i)
	l.Units = min(l.Units+rate.units(tokens), max(l.Units, rate.Full))
}
