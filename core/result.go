package core

import (
	"math"
	"time"

	"github.com/tokenbucket-go/ratelimit/core/internal/bucket"
)

// Never is the RetryAfter of a request that can never pass, because it costs more than a limit's
// Capacity. It is the longest time.Duration; test for it before adding to it.
const Never time.Duration = math.MaxInt64

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
	ticket int64 // of the hold, if this is of a reservation; else 0
	plan   *plan // nil when nothing is known: FromFailOpen, or an error
}

// LimitResult is the state of one limit after a decision.
type LimitResult struct {
	Limit      Limit         // as configured, with its name
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
		Remaining:  r.answer.Remaining(r.plan.Plan, i),
		ResetAfter: duration(r.answer.ResetAfter(r.plan.Plan, i)),
	}
	if !r.answer.Allowed {
		s.RetryAfter = r.retryAfterOf(i)
		s.Violated = s.RetryAfter > 0
	}
	return s
}

// retryAfterOf is how long until the i-th limit has what the denied r asked for.
func (r *Result) retryAfterOf(i int) time.Duration {
	micros := r.answer.RetryAfter(r.plan.Plan, i, r.Cost)
	if micros == bucket.Never {
		return Never
	}
	return duration(micros)
}

// read fills r in from its answer, of p's limits to a request of the given cost.
func (r *Result) read(p *plan, cost int64) {
	a := &r.answer
	r.Allowed, r.Cost, r.Source, r.plan = a.Allowed, cost, a.Source, p
	for i := range p.Rates {
		remaining, retry := a.Remaining(p.Plan, i), time.Duration(0)
		reset := duration(a.ResetAfter(p.Plan, i))
		if !a.Allowed {
			retry = r.retryAfterOf(i)
		}
		// The tightest limit is the one that makes the client wait longest. If none does, it is the one that has
		// least left, and takes longest to fill.
		if i == 0 || retry > r.RetryAfter || retry == r.RetryAfter &&
			(remaining < r.Remaining || remaining == r.Remaining && reset > r.ResetAfter) {
			r.tightest = int32(i)
			r.Remaining = remaining
		}
		r.RetryAfter = max(r.RetryAfter, retry)
		r.ResetAfter = max(r.ResetAfter, reset)
	}
}
