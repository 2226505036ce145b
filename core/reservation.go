package core

import (
	"context"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/tokenbucket-go/ratelimit/core/internal/bucket"
)

// Reservation is tokens promised by [Limiter.Reserve].
type Reservation struct {
	limiter *Limiter
	key     string
	n       int64
	result  Result
	ok      bool
	delay   time.Duration
}

// Reserve takes n tokens even if they are not there yet, and tells how long to wait before acting on them:
// until they are, and not before any reservation that was made earlier. Act after Delay, or Cancel. It costs one
// round trip to Redis, none to memory, and its errors are AllowN's.
//
// A reservation is not OK when it can't be kept: n is above a Capacity, or too much is promised
// already. Twice the Capacity can always be promised, up to 100 years ahead of all but extreme limits, to
// 4,096 reservations of a key at once.
func (l *Limiter) Reserve(ctx context.Context, key string, n int64) (*Reservation, error) {
	return l.promise(ctx, key, n, bucket.Reserve, maxFill)
}

// promise promises tokens that are there within the given time, or takes none.
func (l *Limiter) promise(ctx context.Context, key string, n int64, a bucket.Action, within time.Duration) (*Reservation, error) {
	var res Result
	// A random ticket: whatever a Reset or a new server has made of the key, no other hold has it.
	request := Request{key: key, Request: bucket.Request{
		Action: a, N: n, More: within.Microseconds(), Ticket: 1 + rand.Int64N(bucket.AtOnce-1),
	}}
	if err := l.take(ctx, &res, &request); err != nil {
		return nil, err
	}
	r := &Reservation{limiter: l, key: key, n: n, ok: res.Allowed, result: res, delay: res.RetryAfter}
	if res.plan == nil || res.RetryAfter == Never || l.rules.Load().policy.Shadow { // where nobody waits
		return r, nil
	}
	r.delay = duration(res.answer.Due - res.answer.Now)
	r.result.ticket = request.Ticket
	if !r.ok {
		r.result.RetryAfter = r.delay
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

// Cancel gives the tokens back, for an act that won't happen. After the reservation is due it does nothing, and so
// does a second call. Reservations that were made later stay due when they are: tokens that come back while
// they wait are there for others, as far as the bucket has room for them. Cancel is not safe for concurrent use.
// It costs one round trip to Redis; its errors are those of [Limiter.Refund].
func (r *Reservation) Cancel(ctx context.Context) error {
	if !r.ok || r.n == 0 || r.result.ticket == 0 || r.result.ShadowDenied {
		return nil
	}
	if err := ctx.Err(); err != nil {
		return gone{err} // nothing was sent
	}
	r.ok = false
	return r.limiter.giveBack(ctx, r.key, r.result.Source, bucket.Request{
		Plan: r.result.plan.ForRefund(), Action: bucket.End, Ends: bucket.Ending{Ticket: r.result.ticket, Back: r.n},
	})
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
// waits (the tokens are given back then, which it does not wait for long), and what AllowN returns when there is
// no decision.
func (l *Limiter) WaitN(ctx context.Context, key string, n int64) error {
	within := maxFill
	if deadline, ok := ctx.Deadline(); ok {
		within = max(0, min(within, time.Until(deadline)))
	}
	r, err := l.promise(ctx, key, n, bucket.Await, within)
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
		r.leave(ctx)
		return ctx.Err()
	}
}

// graceOfWait is how long a wait that was called off waits for its tokens to be back.
const graceOfWait = 50 * time.Millisecond

// leave cancels r, whose ctx has ended. It does not wait for a store that is stuck, which may cancel r later. What is
// not given back refills.
func (r *Reservation) leave(ctx context.Context) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), graceOfWait)
	defer cancel()
	_ = r.Cancel(ctx)
}
