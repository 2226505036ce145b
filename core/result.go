package core

import (
	"math"
	"time"
)

// Never is the RetryAfter of a request that can never pass, because it costs more than a limit's
// Capacity. It is the longest time.Duration; test for it before adding to it.
const Never time.Duration = math.MaxInt64

// Source says who made a decision.
type Source uint8

const (
	// FromStore is a decision of the policy's own store.
	FromStore Source = iota
	// FromDenyCache is a denial that this process knew to hold still, so that it did not ask the store.
	FromDenyCache
	// FromLease admitted a request on tokens that this process had taken from the store before.
	FromLease
	// FromFallback is a decision of this process alone, made while the store could not answer.
	FromFallback
	// FromFailOpen admitted a request unseen, because the store could not answer.
	FromFailOpen
)

// String names the source in lower case, as metrics do.
func (s Source) String() string {
	switch s {
	case FromStore:
		return "store"
	case FromDenyCache:
		return "deny-cache"
	case FromLease:
		return "lease"
	case FromFallback:
		return "fallback"
	case FromFailOpen:
		return "fail-open"
	}
	return "Source(" + itoa(int64(s)) + ")"
}

// Result is one decision. Of several limits its fields tell the one that matters most to the
// caller; [Result.Limits] tells all.
type Result struct {
	// Allowed reports whether the request may go on. Its cost has been taken then.
	Allowed bool

	// Remaining is how many whole tokens the tightest limit has left: at least 0.
	Remaining int64

	// RetryAfter is how long to wait before the same request can pass, if nobody else takes tokens
	// meanwhile: 0 when Allowed, [Never] when it costs more than a Capacity, else at least 1 µs.
	RetryAfter time.Duration

	// ResetAfter is how long until every limit is full again.
	ResetAfter time.Duration

	// Cost is how many tokens were asked for.
	Cost int64

	// Source says who decided.
	Source Source

	// ShadowDenied reports that the request is Allowed only because its policy is in shadow mode. Nothing
	// was taken.
	ShadowDenied bool

	headers  HeaderStyle // of the policy
	tightest int32       // index into the plan of the limit that Remaining tells

	// Cause is why the store could not decide; nil when it did. Not for clients.
	Cause error

	answer Answer
	plan   *plan // nil when nothing is known: FromFailOpen, or an error
}

// LimitResult is the state of one limit after a decision.
type LimitResult struct {
	Limit                    // as configured, with its name
	Remaining  int64         // whole tokens left
	Violated   bool          // it lacked tokens, so the request was denied
	RetryAfter time.Duration // until it has the tokens that were asked for; 0 unless Violated
	ResetAfter time.Duration // until it is full
}

// Limits returns the state of each limit of the policy, in its order. It allocates the slice. A
// Result that no store decided (FromFailOpen) has none.
func (r Result) Limits() []LimitResult {
	if r.plan == nil {
		return nil
	}
	list := make([]LimitResult, len(r.plan.limits))
	for i := range list {
		list[i] = r.limit(i)
	}
	return list
}

func (r *Result) limit(i int) LimitResult {
	s := LimitResult{
		Limit:      r.plan.limits[i],
		Remaining:  max(0, r.answer.levels.at(i).units/r.plan.rates[i].unit),
		ResetAfter: r.answer.resetAfter(r.plan, i),
	}
	if !r.answer.Allowed {
		s.RetryAfter = r.answer.retryAfter(r.plan, i, r.Cost)
		s.Violated = s.RetryAfter > 0
	}
	return s
}

// read fills r in from its answer, of a plan's limits to a request of the given cost.
func (r *Result) read(p *plan, cost int64) {
	a := &r.answer
	r.Allowed, r.Cost, r.Source, r.plan = a.Allowed, cost, a.source, p
	for i := range p.rates {
		rate, l := &p.rates[i], *a.levels.at(i)
		remaining := max(0, l.units/rate.unit)
		reset, retry := time.Duration(0), time.Duration(0)
		if a.waits == nil {
			reset = duration(rate.wait(l, rate.full, 0, a.now))
		} else {
			reset = a.resetAfter(p, i)
		}
		if !a.Allowed {
			retry = a.retryAfter(p, i, cost)
		}
		// Tightest: who makes the client wait longest; when nobody does, who has least left, and
		// takes longest to fill.
		if i == 0 || retry > r.RetryAfter || retry == r.RetryAfter &&
			(remaining < r.Remaining || remaining == r.Remaining && reset > r.ResetAfter) {
			r.tightest = int32(i)
			r.Remaining = remaining
		}
		r.RetryAfter = max(r.RetryAfter, retry)
		r.ResetAfter = max(r.ResetAfter, reset)
	}
}

// retryAfter is how long until the i-th limit of p has cost tokens: those of the request that a answers.
func (a *Answer) retryAfter(p *plan, i int, cost int64) time.Duration {
	rate := &p.rates[i]
	switch {
	case cost > rate.capacity:
		return Never
	case a.waits != nil:
		return duration((*a.waits)[i].retry)
	}
	return duration(rate.wait(*a.levels.at(i), cost*rate.unit, 0, a.now))
}

// resetAfter is how long until the i-th limit of p is full.
func (a *Answer) resetAfter(p *plan, i int) time.Duration {
	if a.waits != nil {
		return duration((*a.waits)[i].full)
	}
	return duration(p.rates[i].wait(*a.levels.at(i), p.rates[i].full, 0, a.now))
}

func duration(micros int64) time.Duration { return time.Duration(micros) * time.Microsecond }
