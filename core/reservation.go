package core

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"time"

	"github.com/tokenbucket-go/ratelimit/core/internal/bucket"
	"github.com/tokenbucket-go/ratelimit/core/store"
)

// Reservation holds tokens promised by [Limiter.Reserve].
type Reservation struct {
	n      int64
	result Result
	ended  uint32 // the result's, for all its copies
	ok     bool
	delay  time.Duration
}

// Reserve takes n tokens even if the bucket does not have them yet. Act after
// [Reservation.Delay], or Cancel: by then the bucket has refilled as much, and
// earlier reservations are due. Reserve costs one round trip to Redis, and none
// with a MemoryStore. Its errors are those of AllowN.
//
// A reservation is not OK if n is above a Capacity, or too many tokens are
// promised already. Twice the Capacity can always be promised, up to 100 years
// ahead for all but extreme limits. A key can have 2,048 reservations at once.
func (l *Limiter) Reserve(ctx context.Context, key string, n int64) (*Reservation, error) {
	return l.promise(ctx, l.current(), key, n, bucket.Reserve, bucket.MaxFill)
}

// promise reserves n tokens if they are due within a time, else none.
func (l *Limiter) promise(ctx context.Context, now *compiled, key string, n int64, a bucket.Action, within time.Duration) (*Reservation, error) {
	var res Result
	// It is random, so that no other hold has it, even after a Reset.
	asked := request{key: key, Request: store.Request{Request: bucket.Request{
		Action: a, N: n, More: within.Microseconds(), Ticket: 1 + rand.Int64N(bucket.AtOnce-1),
	}}}
	if err := l.take(ctx, now, &res, &asked); err != nil {
		return nil, err
	}
	r := &Reservation{n: n, ok: res.Allowed, result: res, delay: res.RetryAfter}
	r.result.once = &r.ended
	// No store decided, no wait is long enough, or no caller waits.
	if res.set == nil || res.RetryAfter == Never || now.policy.Shadow {
		return r, nil
	}
	r.delay = duration(res.answer.Due - res.answer.Now)
	r.result.ticket = asked.Ticket
	if !r.ok {
		r.result.RetryAfter = r.delay
	}
	return r, nil
}

// OK reports whether the tokens are promised.
func (r *Reservation) OK() bool { return r.ok }

// Delay returns how long to wait before acting on the reservation, from the
// moment it was made. 0 means act at once. If the reservation is not OK, Delay
// is the time after which the same reservation can be OK, or [Never].
func (r *Reservation) Delay() time.Duration { return r.delay }

// Result returns the decision behind the reservation.
func (r *Reservation) Result() Result { return r.result }

// Cancel returns the tokens to the bucket, if the act won't happen. It does
// nothing once the reservation is due or canceled. Later reservations keep
// their due times. It is not safe for concurrent use. It costs one round trip
// to Redis. Its errors are those of [Limiter.Refund]; but a store with a
// circuit breaker that was away cancels r when it is back, unless r is due by
// then.
func (r *Reservation) Cancel(ctx context.Context) error {
	if !r.ok || r.n == 0 || r.result.ticket == 0 || r.result.ShadowDenied {
		return nil
	}
	if err := r.result.endIn(ctx); errors.Is(err, ErrSettled) {
		return nil
	} else if err != nil {
		return err // r.ok stays true, so that the caller can call Cancel again
	}
	r.ok = false
	l := r.result.limiter
	return l.endHold(ctx, l.current(), r.result.key, &r.result, r.n)
}

// Wait is shorthand for WaitN(ctx, key, 1).
func (l *Limiter) Wait(ctx context.Context, key string) error {
	return l.WaitN(ctx, key, 1)
}

// WaitN takes n tokens of key and blocks until the bucket has refilled them.
// Waiting callers are served in the order of their calls. It costs one round
// trip to Redis, however long the wait.
//
// It returns at once, and takes nothing, with [ErrDeadline] if the wait would
// exceed ctx's deadline, with [ErrCapacity] if it would never end, with
// [ErrPromised] if too many tokens are promised already, and with AllowN's
// error if there is no decision. If ctx ends during the wait, WaitN gives the
// tokens back and returns ctx's error after at most 50 ms: waits of one key
// that end at once share a round trip, and a goroutine waits for an answer that
// takes longer. Without one, the tokens refill with time.
func (l *Limiter) WaitN(ctx context.Context, key string, n int64) error {
	within := bucket.MaxFill
	if deadline, ok := ctx.Deadline(); ok {
		within = max(0, min(within, time.Until(deadline)))
	}
	r, err := l.promise(ctx, l.current(), key, n, bucket.Await, within)
	switch {
	case err != nil:
		return err
	case !r.ok && r.delay == Never:
		return fmt.Errorf("%w: %d tokens", ErrCapacity, n)
	case !r.ok && r.delay <= within:
		return ErrPromised
	case !r.ok:
		return fmt.Errorf("%w: the wait is %v and %v are left", ErrDeadline, r.delay, within)
	case r.delay == 0:
		return nil
	}
	timer := time.NewTimer(r.delay)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		r.cancelSoon(ctx)
		return ctx.Err()
	}
}

// cancelSoon cancels r although ctx has ended, together with others of its key.
// It waits for the store for at most cancelTimeout; the store may cancel r
// later.
func (r *Reservation) cancelSoon(ctx context.Context) {
	ctx = context.WithoutCancel(ctx)
	l, set, source, key := r.result.limiter, r.result.set, r.result.Source, strings.Clone(r.result.key) // which may be reused when WaitN returns
	if l.memory != nil || source == FromFallback {                                                      // which never wait
		_ = r.Cancel(ctx)
		return
	}
	now := l.current() // as they are after the wait
	timer := time.NewTimer(cancelTimeout)
	defer timer.Stop()
	hold := bucket.Ending{Ticket: r.result.ticket, At: r.result.answer.Due, Back: r.n}
	done := l.cancels.Add(cancelsOf{set, source, key}, hold, func(holds []bucket.Ending) error {
		return l.endHolds(ctx, now, key, set, source, holds)
	})
	select {
	case <-done:
	case <-timer.C:
	}
}
