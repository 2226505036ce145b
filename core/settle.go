package core

import (
	"context"
	"errors"
	"time"
)

// Settle corrects what the decision took to what the request really took, once that is known: {"tokens": 840} where an
// estimate of 1,000 was charged. Units that are not given keep what was charged. What is too much comes back, as by
// [Limiter.Refund]. What is missing is charged even if it is not there: the bucket is in debt then, and denies later requests
// until it has refilled.
//
// A Result can be undone or settled once: after that it is [ErrSettled]. Settle a reservation when it is due. Settle does
// nothing if the decision took nothing: it was denied, or nobody decided. A cost is a number of requests: an estimate of tokens
// belongs in the Units of [Limiter.AllowUnits], or Settle charges all the tokens on top of it.
//
// Errors are those of Undo, [ErrCost] for a negative number, and [ErrUnit]. Nothing has changed then, and after these two
// Settle can be called again. Settle costs one round trip to Redis, and is sent at most once: if there is no answer, it may or
// may not have been settled. Observers receive a failure as [OutcomeUnsettled].
func (r *Result) Settle(ctx context.Context, units Units) error {
	l := r.limiter
	if l == nil {
		return ErrNoDecision
	}
	if !r.taken() {
		return nil
	}
	now := l.rules.Load()
	if err := units.check(func(unit string) bool { return now.counts(unit) || r.plan.counts(unit) }); err != nil {
		l.unsettled(ctx, now, r.key, r.Source, time.Now(), err)
		return err
	}
	if err := r.endIn(ctx); err != nil {
		return err
	}
	r.plan.use.take(units)
	back := make([]int64, len(r.plan.limits))
	for i, limit := range r.plan.limits {
		if actual, given := units[limit.unit()]; given {
			back[i] = r.costOf(i) - actual
		}
	}
	return l.settle(ctx, now, r.key, r.Source, r.plan, back)
}

// settle gives back tokens as giveBack does, and reports a failure to the observers, unless the caller's context has ended.
func (l *Limiter) settle(ctx context.Context, now *rules, key string, source Source, p *plan, back []int64) error {
	began := time.Now()
	err := l.giveBack(ctx, now, key, source, p, back)
	if err != nil && !errors.As(err, &gone{}) {
		l.unsettled(ctx, now, key, source, began, err)
	}
	return err
}

// unsettled tells observers that the decision was not settled, and why.
func (r *Result) unsettled(ctx context.Context, why error) {
	if r.limiter != nil && r.taken() {
		r.limiter.unsettled(ctx, r.limiter.rules.Load(), r.key, r.Source, time.Now(), why)
	}
}

// unsettled reports that key's bucket was not corrected, which began at an instant.
func (l *Limiter) unsettled(ctx context.Context, now *rules, key string, source Source, began time.Time, err error) {
	l.watch.call(ctx, Observation{Policy: now.policy.Name, Outcome: OutcomeUnsettled, Source: source, Latency: time.Since(began), Err: err}, key)
}

// Debit charges key for n requests that have happened already, such as those that another service has served. If the tokens
// are not there, the bucket is in debt, and denies later requests until it has refilled. A debt can always be twice the
// Capacity; for limits on a calendar it can be what up to 4,096 periods bring. Errors and cost are those of
// [Result.Settle].
func (l *Limiter) Debit(ctx context.Context, key string, n int64) error {
	return l.DebitUnits(ctx, key, Units{Requests: n})
}

// DebitUnits is Debit of units. It charges only the units that are given: no request, unless units has [Requests].
func (l *Limiter) DebitUnits(ctx context.Context, key string, units Units) error {
	if err := checkKey(key); err != nil {
		return err
	}
	now := l.rules.Load()
	if err := units.check(now.counts); err != nil {
		l.unsettled(ctx, now, key, FromStore, time.Now(), err)
		return err
	}
	p := now.planOf(key)
	p.use.take(units)
	back := make([]int64, len(p.limits))
	for i, limit := range p.limits {
		back[i] = -units[limit.unit()]
	}
	return l.settle(ctx, now, key, FromStore, p, back)
}
