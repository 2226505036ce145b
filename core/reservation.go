package core

import (
	"context"
	"fmt"
	"time"
)

// Reservation is tokens promised by [Limiter.Reserve].
type Reservation struct {
	limiter *Limiter
	key     string
	n       int64
	due     int64 // µs since 1970 on the store's clock
	result  Result
	ok      bool
	delay   time.Duration
}

// Reserve takes n tokens even if they are not there yet, and tells how long to wait before acting
// on them. Those who ask later wait behind it, in the order of their asking. Act after Delay, or
// Cancel. It costs one round trip to Redis, none to memory, and its errors are AllowN's.
//
// A reservation is not OK when it can't be kept: n is above a Capacity, or too much is promised
// already. Twice the Capacity can always be promised, and up to 100 years ahead of all but
// extreme limits.
func (l *Limiter) Reserve(ctx context.Context, key string, n int64) (*Reservation, error) {
	return l.reserve(ctx, key, n, maxFill)
}

// reserve promises tokens that are there within the given time, or takes none.
func (l *Limiter) reserve(ctx context.Context, key string, n int64, within time.Duration) (*Reservation, error) {
	var res Result
	if err := l.take(ctx, &res, Request{key: key, n: n, within: within.Microseconds()}); err != nil {
		return nil, err
	}
	r := &Reservation{limiter: l, key: key, n: n, ok: res.Allowed, result: res, delay: res.RetryAfter}
	if r.ok && res.plan != nil && !l.rules.Load().policy.Shadow { // where nobody waits
		r.delay = res.debt()
		r.due = res.answer.now + r.delay.Microseconds()
	}
	return r, nil
}

// OK reports whether the tokens are promised.
func (r *Reservation) OK() bool { return r.ok }

// Delay is how long to wait, from the moment of the reservation, before acting on it: 0 for at once.
// When the reservation is not OK it is the time after which the same one may be, or [Never].
func (r *Reservation) Delay() time.Duration { return r.delay }

// Result is the decision behind the reservation.
func (r *Reservation) Result() Result { return r.result }

// Cancel gives the tokens back, for an act that won't happen. Tokens that later reservations already
// build on stay taken, so that their delays stay true. Only the first call does anything; it is not
// safe for concurrent use. It costs one round trip to Redis; its errors are those of [Limiter.Refund].
func (r *Reservation) Cancel(ctx context.Context) error {
	if !r.ok || r.n == 0 || r.result.plan == nil || r.result.ShadowDenied {
		return nil
	}
	if err := ctx.Err(); err != nil {
		return gone{err} // nothing was sent
	}
	r.ok = false
	request := Request{key: r.key, action: cancel, n: r.n, due: r.due, plan: r.result.plan.forReturns()}
	if r.result.Source == FromLease {
		request.action = refund // the tokens were there, so nobody builds on them
	}
	return r.limiter.giveBack(ctx, request, r.result.Source)
}

// debt is how long until every limit is out of debt.
func (r *Result) debt() time.Duration {
	longest := int64(0)
	for i := range r.plan.rates {
		longest = max(longest, r.plan.rates[i].wait(*r.answer.levels.at(i), 0, r.answer.now))
	}
	return duration(longest)
}

// Wait is shorthand for WaitN(ctx, key, 1).
func (l *Limiter) Wait(ctx context.Context, key string) error {
	return l.WaitN(ctx, key, 1)
}

// WaitN blocks until n tokens of key are there, and takes them. Those who wait are served in the
// order of their asking. It takes one round trip, however long the wait.
//
// It returns [ErrDeadline] at once when the wait would pass ctx's deadline, [ErrCapacity] when it
// would never end, [ErrPromised] when the queue is as long as can be, ctx's error when ctx ends while it
// waits (the tokens are given back then), and what AllowN returns when there is no decision.
func (l *Limiter) WaitN(ctx context.Context, key string, n int64) error {
	within := maxFill
	if deadline, ok := ctx.Deadline(); ok {
		within = max(0, min(within, time.Until(deadline)))
	}
	r, err := l.reserve(ctx, key, n, within)
	switch {
	case err != nil:
		return err
	case !r.ok && r.delay == Never:
		return fmt.Errorf("%w: %d tokens", ErrCapacity, n)
	case !r.ok && r.delay <= within:
		return ErrPromised
	case !r.ok:
		return fmt.Errorf("%w: %v, of which %v are left", ErrDeadline, r.delay, within)
	case r.delay == 0:
		return nil
	}
	timer := time.NewTimer(r.delay)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		// Best effort: what can't be given back refills.
		_ = r.Cancel(context.WithoutCancel(ctx))
		return ctx.Err()
	}
}
