package clientlimit

import (
	"cmp"
	"context"
	"math"
	"math/rand/v2"
	"time"

	"github.com/tokenbucket-go/ratelimit/clientlimit/internal/advice"
	"github.com/tokenbucket-go/ratelimit/core"
)

// call is one attempt of a request, from when it begins to wait until its answer
// is over. After enter it is noted once as served, refused or lost, and then
// ended by end or unsent.
type call struct {
	t     *Transport
	lane  *lane
	ctx   context.Context
	units core.Units
	until time.Time     // it waits no longer
	wake  chan struct{} // has a value when the call must look whether it can go

	pauses int           // of the lane when the call was sent
	result core.Result   // of the limiter; zero: there is none
	hold   time.Duration // for how long the limiter holds its slots; 0: it has none
	holdAt time.Time     // when to hold them for longer
}

// enter waits until a request can be sent. It takes what the request needs from
// the limiter.
//
// A request that would have to wait for longer than most or than ctx fails at
// once with an [Error], and so does one that finds a full queue. If ctx ends,
// enter returns its error. Other errors are the limiter's.
func (t *Transport) enter(ctx context.Context, key string, units core.Units, most time.Duration) (*call, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	now := time.Now()
	c := &call{t: t, ctx: ctx, units: units, until: now.Add(most), wake: make(chan struct{}, 1)}
	if deadline, ok := ctx.Deadline(); ok && deadline.Before(c.until) {
		c.until = deadline
	}
	window := 1
	if t.limiter != nil {
		window = math.MaxInt32
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	c.lane = t.lanes.enter(key, window, now)
	passed := false
	defer func() {
		if !passed {
			t.leave(c.lane)
		}
	}()
	if err := c.waitInQueue(now); err != nil {
		return nil, err
	}
	passed = true
	return c, nil
}

// waitInQueue waits until c is sent. t.mu is held, but not while it waits.
func (c *call) waitInQueue(now time.Time) error {
	l := c.lane
	if len(l.queue) > c.t.queue {
		return &Error{Key: l.key, reason: forTurn, Err: ErrQueueFull}
	}
	if wait, reason := l.expected(now); now.Add(wait).After(c.until) {
		return c.tooLong(wait, reason, now)
	}
	l.queue = append(l.queue, c)
	defer l.leaveQueue(c)
	timer := time.NewTimer(longestPause)
	defer timer.Stop()
	for {
		now = time.Now()
		wait, reason := longestPause, forTurn
		if l.queue[0] == c {
			if wait, reason = l.wait(now); wait == 0 {
				if passed, err := c.take(); passed || err != nil {
					return err
				}
				continue
			}
			if now.Add(wait).After(c.until) {
				return c.tooLong(wait, reason, now)
			}
		}
		timer.Reset(min(wait, c.until.Sub(now)))
		var err error
		c.unlocked(func() {
			select {
			case <-timer.C:
			case <-c.wake:
			case <-c.ctx.Done():
				err = c.ctx.Err()
			}
		})
		if err != nil {
			return err
		}
		if now = time.Now(); !now.Before(c.until) {
			wait, reason = l.expected(now)
			return c.tooLong(wait, reason, now)
		}
	}
}

// tooLong is the error of a call that would have to wait for a time; 0: it is
// not known.
func (c *call) tooLong(wait time.Duration, reason string, now time.Time) error {
	e := &Error{Key: c.lane.key, reason: cmp.Or(reason, forTurn), Err: core.ErrDeadline}
	if wait > 0 {
		e.Until = now.Add(wait)
	}
	return e
}

// unlocked calls f without t.mu, which is held.
func (c *call) unlocked(f func()) {
	c.t.mu.Unlock()
	defer c.t.mu.Lock()
	f()
}

// take takes what c needs from the limiter, if it has that, and notes that c is
// sent. t.mu is held, but not while the limiter decides.
func (c *call) take() (passed bool, err error) {
	l := c.lane
	if c.t.limiter != nil {
		c.unlocked(func() { c.result, err = c.t.limiter.AllowUnits(c.ctx, l.key, c.units) })
		now := time.Now()
		switch {
		case err != nil:
			return false, err
		case c.result.RetryAfter == core.Never:
			return false, &Error{Key: l.key, reason: forLimiter, Err: core.ErrCapacity}
		case !c.result.Allowed:
			l.denied(&c.result, now)
			return false, nil
		case l.pausedUntil.After(now): // the pause began meanwhile
			c.unlocked(func() { _ = c.result.Undo(context.WithoutCancel(c.ctx)) })
			return false, nil
		}
		c.hold = holdOf(&c.result)
		c.holdAt = now.Add(c.hold / 2)
	}
	l.send(c, time.Now())
	return true, nil
}

// denied notes that the limiter has denied a call.
func (l *lane) denied(res *core.Result, now time.Time) {
	var rates, slots time.Duration
	l.spacing = 0
	for _, r := range res.Limits() {
		switch {
		case !r.Violated:
		case r.Limit.Mode == core.Concurrent:
			slots = max(slots, r.RetryAfter)
		default:
			rates = max(rates, r.RetryAfter)
			if r.Limit.Mode == core.Continuous && r.Limit.RefillRate > 0 {
				l.spacing = max(l.spacing, seconds(r.Limit.RefillInterval.Seconds()/float64(r.Limit.RefillRate)*float64(r.Cost)))
			}
		}
	}
	wait := cmp.Or(rates, res.RetryAfter)
	if rates == 0 && slots > 0 { // one may be released earlier than the limiter knows
		wait = min(slots, pollSlots/2+rand.N(pollSlots))
	}
	l.limited = now.Add(max(wait, time.Microsecond))
}

// pollSlots is about how often to ask for a slot that another process may
// release.
const pollSlots = 25 * time.Millisecond

// holdOf returns for how long a limiter holds what comes back; 0: nothing does.
func holdOf(res *core.Result) (shortest time.Duration) {
	for _, r := range res.Limits() {
		hold := r.Limit.MaxHold
		if r.Limit.Mode == core.Concurrent {
			hold = cmp.Or(hold, time.Minute)
		}
		if hold > 0 && r.Cost > 0 && (shortest == 0 || hold < shortest) {
			shortest = hold
		}
	}
	return shortest
}

// holdOn holds the slots for as long again, if half of their time is over. It
// is called while the answer is read, by one goroutine at a time. If they are
// lost to others, the call goes on without.
func (c *call) holdOn() {
	if now := time.Now(); c.hold > 0 && now.After(c.holdAt) {
		c.holdAt = now.Add(c.hold / 2)
		_ = c.result.Hold(c.ctx)
	}
}

// served notes that the service has answered. With a limiter, what the answer
// calls left does not count: it is what the limiter leaves.
func (c *call) served(a advice.Advice) {
	c.note(func(now time.Time) {
		if c.t.limiter != nil {
			a.Quotas = nil
		}
		c.lane.served(c, stocks(a.Quotas, c.units), now)
	})
}

// refused notes that the service has refused the call for a time. It returns
// until when the lane pauses.
func (c *call) refused(r Refusal) (until time.Time) {
	c.note(func(now time.Time) {
		c.lane.refused(c, r.After, r.Kind == Refused, now)
		until = c.lane.pausedUntil
	})
	return until
}

// lost notes that there is no answer, or one that says nothing of limits.
func (c *call) lost() { c.note(func(now time.Time) { c.lane.answered(c, now) }) }

func (c *call) note(f func(now time.Time)) {
	c.t.mu.Lock()
	defer c.t.mu.Unlock()
	f(time.Now())
	c.lane.wakeFirst()
}

// unsent gives back what the call took: it was never sent.
func (c *call) unsent() {
	_ = c.result.Undo(context.WithoutCancel(c.ctx))
	c.leave()
}

// end ends a call whose answer is over. used is what it really took; nil: what
// was taken stays.
func (c *call) end(used core.Units) {
	ctx := context.WithoutCancel(c.ctx)
	if used != nil {
		_ = c.result.Settle(ctx, used) // observers of the limiter see the error
	}
	_ = c.result.Release(ctx)
	c.leave()
}

func (c *call) leave() {
	c.t.mu.Lock()
	defer c.t.mu.Unlock()
	if c.hold > 0 { // a slot is free
		c.lane.limited = time.Time{}
	}
	c.lane.wakeFirst()
	c.t.lanes.leave(c.lane)
}
