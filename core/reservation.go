package core

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/tokenbucket-go/ratelimit/core/internal/bucket"
	"github.com/tokenbucket-go/ratelimit/core/store"
)

// Reservation is tokens promised by [Limiter.Reserve].
type Reservation struct {
	result Result
	ended  uint32 // the result's, for all its copies
	ok     bool
	delay  time.Duration
}

// Reserve takes n tokens even if the bucket does not have them yet: until it
// has refilled them it is in debt. Act after [Reservation.Delay], or Cancel.
// Reserve costs one round trip to Redis, and none with a MemoryStore. Its
// errors are those of AllowN.
//
// A reservation is not OK if n is above a Capacity, or the bucket is too deep in
// debt: twice the Capacity can always be promised. On a calendar it must be due
// when one of the next periods begins: as many as fill the bucket, and two more,
// so three of [PerMonth].
func (l *Limiter) Reserve(ctx context.Context, key string, n int64) (*Reservation, error) {
	return l.promise(ctx, l.current(), key, n, bucket.MaxFill)
}

// promise reserves n tokens if they are due within a time, else none. A delay of
// bucket.Forever means that they never are.
func (l *Limiter) promise(ctx context.Context, now *compiled, key string, n int64, within time.Duration) (*Reservation, error) {
	var res Result
	asked := request{key: key, Request: store.Request{Request: bucket.Request{Action: bucket.Reserve, N: n, When: min(within.Microseconds(), bucket.Forever-1)}}}
	if err := l.take(ctx, now, &res, &asked); err != nil {
		return nil, err
	}
	r := &Reservation{ok: res.Allowed, result: res, delay: res.RetryAfter}
	r.result.once = &r.ended
	// No store decided, no wait is long enough, or no caller waits.
	if res.set == nil || res.RetryAfter == Never || now.policy.Shadow {
		return r, nil
	}
	if r.delay = duration(res.answer.Due - res.answer.Now); r.delay >= duration(bucket.Forever) {
		r.delay = Never
	}
	if !r.ok {
		r.result.RetryAfter = r.delay
	} else {
		r.result.due = res.answer.Due
	}
	return r, nil
}

// OK reports whether the tokens are promised.
func (r *Reservation) OK() bool { return r.ok }

// Delay returns how long to wait before acting on the reservation, from the
// moment it was made. 0 means act at once. If the reservation is not OK, it is
// [Never].
func (r *Reservation) Delay() time.Duration { return r.delay }

// Result returns the decision behind the reservation.
func (r *Reservation) Result() Result { return r.result }

// Cancel returns the tokens to the bucket, if the act won't happen, but for what
// others have reserved behind them, as golang.org/x/time/rate does: their due
// times stay. It does nothing once the reservation is canceled. It is not safe
// for concurrent use. It costs one round trip to Redis. Its errors are those of
// [Limiter.Refund]; but a store with a circuit breaker that was away cancels r
// when it is back.
func (r *Reservation) Cancel(ctx context.Context) error {
	if !r.ok || !r.result.taken() {
		return nil
	}
	if err := r.result.endIn(ctx); errors.Is(err, ErrSettled) {
		return nil
	} else if err != nil {
		return err // r.ok stays true, so that the caller can call Cancel again
	}
	r.ok = false
	return r.result.undo(ctx)
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
// exceed ctx's deadline, with [ErrCapacity] if it would never end, and with
// AllowN's error if there is no decision. If ctx ends during the wait, WaitN
// gives the tokens back and returns ctx's error after at most 50 ms: a goroutine
// waits for an answer that takes longer. Without one, the tokens refill with
// time.
func (l *Limiter) WaitN(ctx context.Context, key string, n int64) error {
	within := bucket.MaxFill
	if deadline, ok := ctx.Deadline(); ok {
		within = max(0, min(within, time.Until(deadline)))
	}
	r, err := l.promise(ctx, l.current(), key, n, within)
	switch {
	case err != nil:
		return err
	case !r.ok && r.delay == Never:
		return fmt.Errorf("%w: %d tokens", ErrCapacity, n)
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

// cancelSoon cancels r although ctx has ended. It waits for the store for at
// most cancelTimeout; the store may cancel r later.
func (r *Reservation) cancelSoon(ctx context.Context) {
	ctx = context.WithoutCancel(ctx)
	if r.result.limiter.memory != nil || r.result.Source == FromFallback { // which never wait
		_ = r.Cancel(ctx)
		return
	}
	r.result.Key = strings.Clone(r.result.Key) // which may be reused when WaitN returns
	done := make(chan struct{})
	go func() {
		defer close(done)
		_ = r.Cancel(ctx)
	}()
	timer := time.NewTimer(cancelTimeout)
	defer timer.Stop()
	select {
	case <-done:
	case <-timer.C:
	}
}
