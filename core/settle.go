package core

import (
	"context"
	"errors"
	"time"
)

// Settle corrects the decision res on key to what the request really took, once that is known: {"tokens": 840} where an
// estimate of 1,000 was charged. Units that are not given keep what was charged. What is too much comes back, as by
// [Limiter.Refund]. What is missing is charged even if it is not there: the bucket is in debt then, and denies later requests
// until it has refilled.
//
// Call Settle at most once for a decision, and not for one that was undone: a Result can't know, and a second call corrects
// the bucket a second time. Settle a reservation when it is due, and do not cancel it after that. Settle does nothing if res
// took nothing: it was denied, or nobody decided. A cost is a number of requests: an estimate of tokens belongs in the Units of
// [Limiter.AllowUnits], or Settle charges all the tokens on top of it.
//
// Errors are those of Refund, [ErrCost] for a negative number, [ErrUnit], and [ErrOtherKey] if res is a decision on another
// key or of another policy. Nothing has changed then. Settle costs one round trip to Redis, and is sent at most once: if
// there is no answer, it may or may not have been settled. Observers receive a failure as [OutcomeUnsettled].
func (l *Limiter) Settle(ctx context.Context, key string, res Result, units Units) error {
	if err := checkKey(key); err != nil {
		return err
	}
	if !res.taken() {
		return nil
	}
	now := l.rules.Load()
	err := res.check(now, key)
	if err == nil {
		err = units.check(func(unit string) bool { return now.counts(unit) || res.plan.counts(unit) })
	}
	if err != nil {
		l.unsettled(ctx, now, key, res.Source, time.Now(), err)
		return err
	}
	res.plan.use.take(units)
	back := make([]int64, len(res.plan.limits))
	for i, limit := range res.plan.limits {
		if actual, given := units[limit.unit()]; given {
			back[i] = res.costOf(i) - actual
		}
	}
	return l.settle(ctx, now, key, res.Source, res.plan, back)
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

// Unsettled tells observers that the decision res on key was not settled, and why, as [OutcomeUnsettled]. [Limiter.Settle] does
// so by itself. Unsettled is for middleware that has no units to settle, such as when the function that knows them panicked.
func (l *Limiter) Unsettled(ctx context.Context, key string, res Result, why error) {
	if res.taken() {
		l.unsettled(ctx, l.rules.Load(), key, res.Source, time.Now(), why)
	}
}

// unsettled reports that key's bucket was not corrected, which began at an instant.
func (l *Limiter) unsettled(ctx context.Context, now *rules, key string, source Source, began time.Time, err error) {
	l.watch.call(ctx, Observation{Policy: now.policy.Name, Outcome: OutcomeUnsettled, Source: source, Latency: time.Since(began), Err: err}, key)
}

// Debit charges key for n requests that have happened already, such as those that another service has served. If the tokens
// are not there, the bucket is in debt, and denies later requests until it has refilled. A debt can always be twice the
// Capacity; for limits on a calendar it can be what up to 4,096 periods bring. Errors and cost are those of
// [Limiter.Settle].
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
