package core

import (
	"context"
	"sync/atomic"
	"time"

	"github.com/tokenbucket-go/ratelimit/core/store"
)

// Result is one decision. If the policy has several limits, Remaining is the
// tightest limit's, and RetryAfter and ResetAfter are the longest.
// [Result.Limits] returns each limit's own.
//
// A Result knows its limiter and key, so [Result.Undo] gives back what it took
// and [Result.Settle] corrects it.
type Result struct {
	// Allowed reports whether the request is allowed. If so, its cost has been
	// taken.
	Allowed bool

	// ShadowDenied reports that the request is Allowed only because its policy
	// is in shadow mode. Nothing was taken.
	ShadowDenied bool

	// Source is who decided.
	Source Source

	// Small fields stand together, because a Result is kept with each request.
	headers  HeaderStyle // the policy's
	inShadow bool        // the policy was in shadow mode
	untaken  bool        // another decision that belongs to this one denied, so nothing was taken
	tightest uint8       // index of the tightest limit in the set: there are at most maxLimits
	// ended is 1 when the Result was undone or settled. A copy has its own,
	// unless both have the same once. That is a number where the Result is kept
	// for others, so that a decision without that costs no allocation.
	ended uint32
	once  *uint32

	// Key is the key, as the caller passed it, such as "ip:192.0.2.1" from
	// middleware; "" if there are Parts. Clone it if it is a view of a reused
	// buffer and you keep the Result longer than the buffer.
	Key string

	// Parts are the decisions of [AllowTogether], one for each charge in their
	// order; nil for the decision of one limiter. If the request is denied, a
	// part that is Allowed had the tokens, but took none.
	Parts []Result

	// Remaining is how many whole tokens the tightest limit has left: at least
	// 0.
	Remaining int64

	// RetryAfter is how long to wait before the same request can be allowed, if
	// no other request takes tokens in the meantime. Slots may be free earlier.
	// It is 0 if Allowed, and
	// otherwise from 1 µs to 71 years, or [Never], which is 100 years: the cost
	// exceeds a Capacity, the key is blocked, or the wait is longer than 71
	// years. WriteHeaders then sends no Retry-After. RetryAfter.Seconds() is
	// right in each case, such as for a body of your own: "retry_after": 1.5, or
	// 3153600000.
	RetryAfter time.Duration

	// ResetAfter is how long it takes until every limit is full again.
	ResetAfter time.Duration

	// Cost is how many tokens the request asked for, of the limits that count
	// requests. [LimitResult.Cost] has those of other units. For
	// [Limiter.AllowAtMost] it is how many it got.
	Cost int64

	// Cause is why the store could not decide, or nil if it did. Do not show it
	// to clients.
	Cause error

	limiter *Limiter // that returned this; nil: none did
	answer  store.Answer
	each    *[]int64  // the tokens asked of each limit; nil: Cost of those that count requests
	due     int64     // when a reservation is due, in µs since 1970 on the store's clock; 0: it is none, or it is due at once
	held    *held     // what it holds; nil: nothing
	set     *limitSet // nil if no limit was checked: FromFailOpen, or an error
}

// end notes that r is undone or settled. It reports whether it was not before.
func (r *Result) end() bool {
	ended := r.once
	if ended == nil {
		ended = &r.ended
	}
	return atomic.CompareAndSwapUint32(ended, 0, 1)
}

// endIn is end before something is sent, unless ctx has ended.
func (r *Result) endIn(ctx context.Context) error {
	if err := ctx.Err(); err != nil {
		return callerDone{err}
	}
	if !r.end() {
		return ErrSettled
	}
	return nil
}

// Policy returns the name of the policy that decided; "" if there are Parts, or
// no limiter returned this Result.
func (r *Result) Policy() string {
	if r.limiter == nil {
		return ""
	}
	return r.limiter.Name()
}

// LimitResult is the state of one limit after a decision.
type LimitResult struct {
	Limit      Limit         // as configured, with its name
	Cost       int64         // tokens that the request asked for
	Remaining  int64         // whole tokens left
	Debt       int64         // tokens that the limit owes, rounded up: see [Limiter.Debit]; 0 unless Remaining is 0
	Violated   bool          // the limit lacked tokens, so the request was denied
	RetryAfter time.Duration // until the limit has enough tokens for the request; 0 unless Violated
	ResetAfter time.Duration // until the limit is full
}

// Limits returns the state of each limit, in the policy's order; of a Result
// with Parts those of all parts. It allocates the slice. It returns nil if no
// store or fallback decided (FromFailOpen, or an error).
func (r Result) Limits() []LimitResult {
	if r.Parts != nil {
		return r.limitsOfParts()
	}
	if r.set == nil {
		return nil
	}
	list := make([]LimitResult, len(r.set.limits))
	for i := range list {
		list[i] = r.limit(i)
	}
	return list
}

// Delay returns how long to wait before acting on what [Limiter.Reserve] has
// promised, from the moment of its decision. 0 means act at once.
func (r Result) Delay() time.Duration {
	if r.due == 0 {
		return 0
	}
	return duration(r.answer.Due - r.answer.Now)
}

func (r *Result) limit(i int) LimitResult {
	s := LimitResult{
		Limit:      r.set.limits[i],
		Cost:       r.costOf(i),
		Remaining:  r.answer.Remaining(r.set.LimitSet, i),
		Debt:       r.answer.Debt(r.set.LimitSet, i),
		ResetAfter: duration(r.answer.ResetAfter(i)),
	}
	if r.each != nil && r.each == r.set.beyond { // a block asks for more than that
		s.Cost = r.set.CostOf(i, r.Cost, nil)
	}
	if !r.answer.Allowed {
		s.RetryAfter = r.retryAfterOf(i)
		s.Violated = s.RetryAfter > 0
	}
	return s
}

// costOf returns how many tokens the request asked of the i-th limit.
func (r *Result) costOf(i int) int64 {
	return r.set.CostOf(i, r.Cost, r.each)
}

// taken reports whether the decision took something that it can give back.
func (r *Result) taken() bool { return r.Allowed && !r.ShadowDenied && !r.untaken && r.set != nil }

// retryAfterOf returns in which time the i-th limit has what was asked.
func (r *Result) retryAfterOf(i int) time.Duration {
	return delay(r.answer.RetryAfter(r.set.LimitSet, i, r.costOf(i)))
}

// read sets r's fields from its answer to a request under p.
func (r *Result) read(p *limitSet, cost int64, each *[]int64) {
	a := &r.answer
	r.Allowed, r.Cost, r.Source, r.set, r.each = a.Allowed, cost, Source(a.Source), p, each
	for i := range p.Rates {
		remaining, retry := a.Remaining(p.LimitSet, i), time.Duration(0)
		reset := duration(a.ResetAfter(i))
		if !a.Allowed {
			retry = r.retryAfterOf(i)
		}
		// The tightest limit is the one with the longest RetryAfter. Among
		// equals, as when the request is allowed, it is the one with the fewest
		// tokens left, and then the one that takes longest to fill.
		if i == 0 || retry > r.RetryAfter || retry == r.RetryAfter &&
			(remaining < r.Remaining || remaining == r.Remaining && reset > r.ResetAfter) {
			r.tightest = uint8(i)
			r.Remaining = remaining
		}
		r.RetryAfter = max(r.RetryAfter, retry)
		r.ResetAfter = max(r.ResetAfter, reset)
	}
}
