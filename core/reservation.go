package core

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/tokenbucket-go/ratelimit/core/internal/bucket"
	"github.com/tokenbucket-go/ratelimit/core/store"
)

// Reserve takes n tokens even if the bucket does not have them yet: until it
// has refilled them it is in debt. If the Result is Allowed, act after its
// Delay, or give the tokens back by Undo. Reserve costs one round trip to
// Redis, and none with a MemoryStore. Its errors are those of AllowN, and
// [ErrSlots].
//
// It is denied if n is above a Capacity, or the bucket is too deep in debt:
// twice the Capacity can always be promised. On a calendar the tokens must be
// due when one of the next periods begins: as many as fill the bucket, and two
// more, so three of [PerMonth].
func (l *Limiter) Reserve(ctx context.Context, key string, n int64) (res Result, err error) {
	err = l.promise(ctx, &res, key, n, bucket.MaxFill)
	return res, err
}

// promise reserves n tokens if they are due within a time, else none: then
// RetryAfter is when they would be.
func (l *Limiter) promise(ctx context.Context, res *Result, key string, n int64, within time.Duration) error {
	now := l.current()
	asked := request{key: key, Request: store.Request{Request: bucket.Request{Action: bucket.Reserve, N: n, When: min(within.Microseconds(), bucket.Forever-1)}}}
	if err := l.take(ctx, now, res, &asked); err != nil {
		return err
	}
	// No store decided, no wait is long enough, or no caller waits.
	if res.set == nil || res.RetryAfter == Never || now.policy.Shadow {
		return nil
	}
	switch delay := duration(res.answer.Due - res.answer.Now); {
	case res.Allowed:
		res.due, res.once = res.answer.Due, new(uint32)
	case delay >= duration(bucket.Forever):
		res.RetryAfter = Never
	default:
		res.RetryAfter = delay
	}
	return nil
}

// Wait takes one token of key, and blocks until the bucket has refilled it. It
// is shorthand for WaitN(ctx, key, 1).
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
// gives the tokens back and returns ctx's error after at most 50 ms.
func (l *Limiter) WaitN(ctx context.Context, key string, n int64) error {
	within := bucket.MaxFill
	if deadline, ok := ctx.Deadline(); ok {
		within = max(0, min(within, time.Until(deadline)))
	}
	var res Result
	if err := l.promise(ctx, &res, key, n, within); err != nil {
		return err
	}
	switch {
	case res.RetryAfter == Never:
		return fmt.Errorf("%w: %d tokens", ErrCapacity, n)
	case !res.Allowed:
		return fmt.Errorf("%w: the wait is %v and %v are left", ErrDeadline, res.RetryAfter, within)
	case res.Delay() == 0:
		return nil
	}
	timer := time.NewTimer(res.Delay())
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		res.undoSoon(ctx)
		return ctx.Err()
	}
}

// undoSoon is Undo although ctx has ended. It waits for the store for at most
// cancelTimeout; the store may do it later.
func (r *Result) undoSoon(ctx context.Context) {
	ctx = context.WithoutCancel(ctx)
	if r.limiter.memory != nil || r.Source == FromFallback { // which never wait
		_ = r.Undo(ctx)
		return
	}
	r.Key = strings.Clone(r.Key) // which may be reused when WaitN returns
	done := make(chan struct{})
	go func() {
		defer close(done)
		_ = r.Undo(ctx)
	}()
	timer := time.NewTimer(cancelTimeout)
	defer timer.Stop()
	select {
	case <-done:
	case <-timer.C:
	}
}
