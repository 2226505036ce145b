package clientlimit

import (
	"cmp"
	"context"
	"errors"
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
	path  string // of the request
	units core.Units
	until time.Time     // it waits no longer
	wake  chan struct{} // has a value when the call must look whether it can go

	paid     bool        // the limiter has given what the call needs, or promised it
	reserved bool        // result is a reservation
	due      time.Time   // when what is reserved can be used
	result   core.Result // of the limiter; zero: there is none

	pauses int           // of the lane when the call was sent
	hold   time.Duration // for how long the limiter holds its slots; 0: it has none
	holdAt time.Time     // when to hold them for longer
}

// enter waits until a request can be sent. It takes what the request needs from
// the limiter.
//
// A request that would have to wait for longer than most or than ctx fails at
// once with an [Error], and so does one that finds a full queue. If ctx ends,
// enter returns its error. Other errors are the limiter's.
func (t *Transport) enter(ctx context.Context, key, path string, units core.Units, most time.Duration) (*call, error) {
	c := &call{t: t, ctx: ctx, path: path, units: units, until: time.Now().Add(most), wake: make(chan struct{}, 1)}
	if deadline, ok := ctx.Deadline(); ok && deadline.Before(c.until) {
		c.until = deadline
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	for {
		c.lane = t.join(laneID{key, t.nameOf(key, path)})
		err := c.waitInQueue(time.Now())
		if err == nil {
			return c, nil
		}
		c.lane.calls--
		if !errors.Is(err, errOtherLimit) {
			return nil, err
		}
	}
}

// errOtherLimit means that a call waits in the wrong lane: an answer has named
// another limit for its path.
var errOtherLimit = errors.New("clientlimit: another limit counts the request")

// waitInQueue waits until c is sent. t.mu is held, but not while it waits.
func (c *call) waitInQueue(now time.Time) (err error) {
	l := c.lane
	if len(l.queue) > c.t.queue {
		return &Error{Key: l.key, reason: forTurn, Err: ErrQueueFull}
	}
	if wait, reason := l.expected(now); now.Add(wait).After(c.until) {
		return c.tooLong(wait, reason, now)
	}
	l.queue = append(l.queue, c)
	defer l.leaveQueue(c)
	defer func() {
		if err != nil && c.paid {
			c.unlocked(c.giveBack) // before the next one asks for it
			c.paid = false
		}
	}()
	timer := time.NewTimer(longestPause)
	defer timer.Stop()
	for {
		now = time.Now()
		sleep := c.until.Sub(now)
		if l.queue[0] == c {
			wait, reason := l.wait(now)
			switch {
			case c.t.nameOf(l.key, c.path) != l.name:
				return errOtherLimit
			case wait > sleep:
				return c.tooLong(wait, reason, now)
			case wait == 0 && (c.paid || c.t.limiter == nil):
				l.send(c, now)
				return nil
			case wait == 0:
				if err = c.pay(); err != nil {
					return err
				}
				continue
			}
			sleep = wait
		}
		timer.Reset(sleep)
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
			wait, reason := l.expected(now)
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

// pay takes what c needs from the limiter. If it is not there yet, the lane waits
// until then. t.mu is held, but not while the limiter decides.
//
// A token alone is reserved, so that processes get theirs in the order in which
// they asked. Other units and slots can't be reserved: pay asks again for them.
func (c *call) pay() (err error) {
	l := c.lane
	if c.units == nil && !l.slotted {
		c.unlocked(func() { c.result, err = c.t.limiter.Reserve(c.ctx, l.key, 1) })
		switch {
		case errors.Is(err, core.ErrSlots):
			l.slotted = true
		case err != nil:
			return err
		default:
			c.reserved, c.paid = true, c.result.Allowed
			return c.delay(max(c.result.Delay(), c.result.RetryAfter))
		}
	}
	c.unlocked(func() { c.result, err = c.t.limiter.AllowUnits(c.ctx, l.key, c.units) })
	if err != nil {
		return err
	}
	c.paid = c.result.Allowed
	c.hold = holdOf(&c.result)
	c.holdAt = time.Now().Add(c.hold / 2)
	return c.delay(c.result.RetryAfter)
}

// delay has the lane wait for what the limiter lacks, for d. If that comes too
// late, or never, it returns an error.
func (c *call) delay(d time.Duration) error {
	l, now := c.lane, time.Now()
	if d == core.Never {
		return &Error{Key: l.key, reason: forLimiter, Err: core.ErrCapacity}
	}
	var rates time.Duration
	var slots bool
	l.spacing = 0
	for _, r := range c.result.Limits() {
		switch {
		case d == 0 || r.Remaining >= r.Cost: // it lacks nothing
		case r.Limit.Mode == core.Concurrent:
			slots = true
		default:
			rates = max(rates, r.RetryAfter)
			if r.Limit.Mode == core.Continuous {
				l.spacing = max(l.spacing, seconds(r.Limit.RefillInterval.Seconds()/float64(r.Limit.RefillRate)*float64(r.Cost)))
			}
		}
	}
	if !c.paid {
		if slots { // one may be released earlier than the limiter knows
			d = cmp.Or(rates, min(d, pollSlots))
		}
		d += rand.N(max(1, min(d, pollSlots))) // so that no process always comes first
	}
	c.due = now.Add(d)
	l.limited = c.due
	if c.due.After(c.until) {
		return c.tooLong(d, forLimiter, now)
	}
	return nil
}

// pollSlots is after which time to ask for a slot again that another process may
// release, and up to twice that.
const pollSlots = 15 * time.Millisecond

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
	c.note(a.Name, func(now time.Time) {
		if c.t.limiter != nil {
			a.Quotas = nil
		}
		c.lane.served(c, stocks(a.Quotas, c.units), now)
	})
}

// refused notes that the service has refused the call for a time. It returns
// until when the lane pauses.
func (c *call) refused(r Refusal, a advice.Advice) (until time.Time) {
	c.note(a.Name, func(now time.Time) {
		c.lane.refused(c, r.After, r.Kind == Refused, now)
		until = c.lane.pausedUntil
		if r.All {
			c.t.pauseOthers(c.lane, now)
		}
	})
	return until
}

// lost notes that there is no answer, or one that says nothing of limits.
func (c *call) lost() { c.note("", func(now time.Time) { c.lane.answered(c, now) }) }

// note has the lane note an answer. If the answer names another limit, that is
// the lane of the call from now on.
func (c *call) note(name string, f func(now time.Time)) {
	c.t.mu.Lock()
	defer c.t.mu.Unlock()
	now := time.Now()
	if l := c.lane; name != "" && name != l.name {
		c.t.remember(l.key, c.path, name)
		l.answered(c, now)
		l.wakeFirst()
		l.calls--
		c.lane = c.t.join(laneID{l.key, name})
		c.lane.send(c, now)
	}
	f(now)
	c.lane.wakeFirst()
}

// unsent gives back what the call took: it was never sent.
func (c *call) unsent() {
	c.giveBack()
	c.leave()
}

// giveBack gives back what the call took.
func (c *call) giveBack() {
	ctx := context.WithoutCancel(c.ctx)
	switch {
	case !c.reserved || time.Now().Before(c.due):
		_ = c.result.Undo(ctx)
	default:
		_ = c.t.limiter.Refund(ctx, c.lane.key, 1)
	}
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
	c.lane.calls--
}
