package outgoing

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"time"

	"github.com/tokenbucket-go/ratelimit/core"
)

// ask asks the shared pause and the limiter for t, and sends it if they let it
// pass. The lane's lock is held, but not while it asks.
//
// In its turn, t reserves its token and waits for it, so that none is lost
// between two requests. Before, it takes one if there is one.
func (g *Gate) ask(t *Turn, w *waiter, inTurn bool) (passed bool, err error) {
	l, now := t.lane, time.Now()
	l.send(t, now)
	due := g.config.Shared.due(l, now)
	if g.config.Limiter == nil && !due {
		return true, nil
	}
	if due {
		l.checked = now
	}
	reserves := inTurn && t.units == nil && !l.slotted
	var wait time.Duration // after which to ask again
	g.unlocked(l, func() {
		var pause time.Duration
		if due {
			pause = g.config.Shared.left(t.ctx, l.key)
		}
		switch {
		case pause > 0:
			l.mu.Lock()
			l.pause.begin(now.Add(g.apart(pause)), now)
			l.mu.Unlock()
		case g.config.Limiter == nil:
			passed = true
		case reserves:
			passed, err = g.reserve(t, w)
		default:
			passed, wait, err = g.take(t)
		}
	})
	if errors.Is(err, core.ErrSlots) {
		l.slotted, err = true, nil
	}
	if passed && l.pausedFor(t) { // the pause began meanwhile
		passed = false
		g.unlocked(l, func() { _ = t.result.Undo(context.WithoutCancel(t.ctx)) })
	}
	now = time.Now()
	if !passed {
		if wait > 0 {
			l.deny(&t.result, wait, now)
		}
		l.unsend(t, now)
		return false, err
	}
	l.notBefore = time.Time{}
	if l.pause.probes() && paces(&t.result) {
		g.unlocked(l, func() { _ = g.config.Limiter.Debit(t.ctx, l.key, 1) })
	}
	return true, nil
}

// take takes what t needs if the limiter has it, and otherwise returns how long
// to wait.
func (g *Gate) take(t *Turn) (passed bool, wait time.Duration, err error) {
	t.result, err = g.config.Limiter.AllowUnits(t.ctx, t.lane.key, t.units)
	switch {
	case err != nil:
		return false, 0, err
	case t.result.Allowed:
		return true, 0, nil
	case t.result.RetryAfter == core.Never:
		return false, 0, &Error{Key: t.lane.key, Reason: ForLimit, Err: core.ErrCapacity}
	}
	return false, g.retryAfter(&t.result), nil
}

// retryAfter returns after which time to ask the limiter again. A slot may
// become free earlier than the limiter can tell.
func (g *Gate) retryAfter(res *core.Result) time.Duration {
	var rates, slots time.Duration
	for _, r := range res.Limits() {
		if r.Limit.Mode == core.Concurrent {
			slots = max(slots, r.RetryAfter)
		} else {
			rates = max(rates, r.RetryAfter)
		}
	}
	if rates == 0 && slots > 0 {
		return min(slots, pollSlots/2+g.config.Jitter(pollSlots))
	}
	return max(rates, time.Microsecond)
}

// paces reports whether res is of a limit on the rate of requests. The first
// request after a pause takes one more of its tokens. The pause has filled the
// limiter's bucket and the service's, and that request begins the refill of
// both. Later ones, with a shorter way to the service, would come too early.
func paces(res *core.Result) bool {
	return slices.ContainsFunc(res.Limits(), func(r core.LimitResult) bool {
		return r.Limit.Mode == core.Continuous && r.Cost > 0 && cmp.Or(r.Limit.Unit, core.Requests) == core.Requests
	})
}

// pollSlots is about how often to ask for a slot that another process may
// release.
const pollSlots = 25 * time.Millisecond

// reserve reserves t's token and waits for it. It gives the token back if it is
// due too late, if a pause begins or ctx ends.
func (g *Gate) reserve(t *Turn, w *waiter) (passed bool, err error) {
	r, err := g.config.Limiter.Reserve(t.ctx, t.lane.key, 1)
	if err != nil {
		return false, err
	}
	t.result = r.Result()
	due := time.Now().Add(r.Delay())
	switch {
	case r.Delay() == core.Never:
		return false, &Error{Key: t.lane.key, Reason: ForLimit, Err: core.ErrCapacity}
	case r.OK() && r.Delay() == 0:
		return true, nil
	case !r.OK() || !w.waits(due):
		cancel(r, t.ctx)
		return false, tooLong(t.lane.key, ForLimit, due)
	}
	timer := time.NewTimer(r.Delay())
	defer timer.Stop()
	for {
		select {
		case <-timer.C:
			return true, nil
		case <-w.wake:
			t.lane.mu.Lock()
			paused := t.lane.pausedFor(t)
			t.lane.mu.Unlock()
			if paused {
				cancel(r, t.ctx)
				return false, nil
			}
		case <-t.ctx.Done():
			cancel(r, t.ctx)
			return false, t.ctx.Err()
		}
	}
}

// cancel gives a reservation back, also if ctx has ended. The store's own
// timeout bounds it.
func cancel(r *core.Reservation, ctx context.Context) { _ = r.Cancel(context.WithoutCancel(ctx)) }

// pausedFor reports whether t has to wait for a pause that began since it was
// noted as sent. l.mu is held.
func (l *lane) pausedFor(t *Turn) bool {
	return l.pause.number != t.pauses || l.pause.until.After(time.Now())
}
