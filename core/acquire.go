package core

import (
	"context"
	"fmt"
	"time"
)

// Acquire is Allow, but blocks until key has a free slot, or ctx ends. Middleware does not release what Acquire took: call
// [Result.Release].
//
// Callers of one process wait in the order of their calls, and only the first of them asks the store: at once when a slot of the key
// is released in this process, and else at most 40 times a second. Once a second it leaves a slot that was released here to other
// processes for up to 50 ms. So none starves, but between processes there is no order. A call of Allow can come in between.
//
// If another limit of the policy denies, Acquire waits for its tokens too. It returns at once, and takes nothing, with [ErrDeadline]
// if that would exceed ctx's deadline, with [ErrCapacity] if it would never end, and with Allow's error if there is no decision. If
// ctx ends, it takes nothing and returns ctx's error.
func (l *Limiter) Acquire(ctx context.Context, key string) (Result, error) {
	w := l.waiters.join(key)
	defer l.waiters.leave(w)
	select {
	case <-w.first:
	case <-ctx.Done():
		return Result{}, ctx.Err()
	}
	for here := l.waiters.releasedHere(key); ; { // here: a slot was released in this process just now
		if here && l.memory == nil && l.waiters.yields(key) {
			if err := leaveToOthers(ctx); err != nil {
				return Result{}, err
			}
		}
		res, err := l.Allow(ctx, key)
		if err != nil || res.Allowed {
			return res, err
		}
		pause, free, err := l.pause(ctx, &res, w)
		if err != nil {
			return Result{}, err
		}
		if here, err = sleep(ctx, pause, free); err != nil {
			return Result{}, err
		}
	}
}

// leaveToOthers waits for a pause, unless ctx's deadline is near.
func leaveToOthers(ctx context.Context) error {
	if deadline, ok := ctx.Deadline(); ok && time.Until(deadline) < 2*pollEvery {
		return nil
	}
	_, err := sleep(ctx, randomPause(), nil)
	return err
}

// sleep waits for pause, or until released has a value, and reports which. If ctx ends before, it returns ctx's error.
func sleep(ctx context.Context, pause time.Duration, released <-chan struct{}) (free bool, err error) {
	timer := time.NewTimer(pause)
	defer timer.Stop()
	select {
	case <-timer.C:
		return false, nil
	case <-released:
		return true, nil
	case <-ctx.Done():
		return false, ctx.Err()
	}
}

// pause returns how long to wait after a denial, and a channel that ends the pause early; nil: none does.
func (l *Limiter) pause(ctx context.Context, denied *Result, w *waiter) (pause time.Duration, free <-chan struct{}, err error) {
	if denied.RetryAfter == Never {
		return 0, nil, fmt.Errorf("%w: 1 slot", ErrCapacity)
	}
	for i := range denied.plan.limits { // a limit with a rate has its tokens no earlier
		if !denied.plan.Rates[i].Slots {
			pause = max(pause, denied.retryAfterOf(i))
		}
	}
	if deadline, ok := ctx.Deadline(); ok && pause > time.Until(deadline) {
		return 0, nil, fmt.Errorf("%w: the wait is %v", ErrDeadline, pause)
	}
	if pause > 0 {
		return pause, nil, nil
	}
	return min(denied.RetryAfter, randomPause()), w.line.released, nil
}
