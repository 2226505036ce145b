// Package outgoing is what clients share that keep to limits of others,
// whatever their protocol: each request waits for its turn at a [Gate], and
// reports what it was answered.
package outgoing

import (
	"context"
	"math/rand/v2"
	"time"

	"github.com/tokenbucket-go/ratelimit/core"
)

// Config is what a [Gate] goes by.
type Config struct {
	Name      string
	Limiter   *core.Limiter // nil: none
	Shared    *Shared       // pauses of other processes; nil: none
	Queue     int           // how many requests of one priority may wait for one key
	Observers []func(context.Context, Event)

	Jitter func(most time.Duration) time.Duration // a random time below most, which is more than 0; nil: rand.N
}

// Gate lets requests pass, one key at a time. It starts no goroutine.
type Gate struct {
	config Config
	lanes  lanes
}

// New returns a Gate. Without a limiter, nothing is known of a new key until
// its first request is answered.
func New(c Config) *Gate {
	if c.Jitter == nil {
		c.Jitter = rand.N[time.Duration]
	}
	return &Gate{config: c, lanes: lanes{ramps: c.Limiter == nil}}
}

// Call is a request that wants to pass.
type Call struct {
	Key   string
	Units core.Units // what it takes besides one request; nil: nothing
	Until time.Time  // when the caller's patience ends; zero: never
}

// Enter waits for the turn of a call, and returns it. It takes what the call
// needs from the limiter.
//
// A call that would have to wait beyond ctx's deadline, or its own Until, fails
// at once with an [Error], and so does one that finds a full queue. If ctx
// ends, Enter returns its error. Other errors are the limiter's.
func (g *Gate) Enter(ctx context.Context, c Call) (*Turn, error) {
	began := time.Now()
	if deadline, ok := ctx.Deadline(); ok && (c.Until.IsZero() || deadline.Before(c.Until)) {
		c.Until = deadline
	}
	l := g.lanes.enter(c.Key)
	t := &Turn{gate: g, lane: l, ctx: ctx, units: c.Units}
	err := g.pass(ctx, t, c)
	if err != nil {
		g.lanes.leave(l)
		g.observe(ctx, Event{Key: c.Key, Kind: TurnedAway, Wait: time.Since(began), Err: err})
		return nil, err
	}
	t.sent = time.Now()
	t.Waited = t.sent.Sub(began)
	g.observe(ctx, Event{Key: c.Key, Kind: Sent, Wait: t.Waited})
	return t, nil
}

// pass is Enter, on t's lane.
func (g *Gate) pass(ctx context.Context, t *Turn, c Call) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	l, w := t.lane, &waiter{priority: priority(ctx), until: c.Until, wake: make(chan struct{}, 1)}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.seq++
	w.seq = l.seq
	if wait, _ := l.left(time.Now()); wait == 0 && l.queue.len() == 0 { // nobody is in the way
		if passed, err := g.ask(t, w, false); passed || err != nil {
			return err
		}
	}
	if len(l.queue.waiting[w.priority]) >= g.config.Queue {
		return &Error{Key: c.Key, Reason: ForTurn, Err: ErrQueueFull}
	}
	now := time.Now()
	if wait, reason := l.expected(w.priority, now); !w.waits(now.Add(wait)) {
		return tooLong(c.Key, reason, now.Add(wait))
	}
	l.queue.add(w)
	passed := false
	defer func() {
		l.queue.remove(w, passed)
		l.queue.wakeFirst()
		g.unlocked(l, func() { g.observe(ctx, Event{Key: c.Key, Kind: Queued, Queued: -1}) })
	}()
	g.unlocked(l, func() { g.observe(ctx, Event{Key: c.Key, Kind: Queued, Queued: 1}) })
	var err error
	passed, err = g.wait(t, w)
	return err
}

// wait waits until t has passed. w is in the queue. The lane's lock is held,
// but not while it waits.
func (g *Gate) wait(t *Turn, w *waiter) (passed bool, err error) {
	l, timer := t.lane, time.NewTimer(time.Hour)
	defer timer.Stop()
	for {
		now := time.Now()
		wait, reason := longestPause, ForTurn
		if l.queue.first() == w {
			if wait, reason = l.left(now); wait == 0 {
				l.queue.asking = w
				passed, err = g.ask(t, w, true)
				if l.queue.asking = nil; passed || err != nil {
					return passed, err
				}
				l.queue.wakeFirst() // it can be another one by now, of a higher priority
				continue
			}
			if !w.waits(now.Add(wait)) {
				return false, tooLong(l.key, reason, now.Add(wait))
			}
		}
		if !w.until.IsZero() {
			wait = min(wait, w.until.Sub(now))
		}
		timer.Reset(wait)
		g.unlocked(l, func() {
			select {
			case <-timer.C:
			case <-w.wake:
			case <-t.ctx.Done():
				err = t.ctx.Err()
			}
		})
		if now = time.Now(); err == nil && !w.until.IsZero() && !now.Before(w.until) {
			err = tooLong(l.key, reason, time.Time{}) // unless it is known:
			if more, why := l.expected(w.priority, now); more > 0 {
				err = tooLong(l.key, why, now.Add(more))
			}
		}
		if err != nil {
			return false, err
		}
	}
}

// unlocked calls f without the lane's lock, which is held.
func (g *Gate) unlocked(l *lane, f func()) {
	l.mu.Unlock()
	defer l.mu.Lock()
	f()
}

// waits reports whether w would wait until an instant.
func (w *waiter) waits(until time.Time) bool { return w.until.IsZero() || !until.After(w.until) }

// InTime reports whether a request may wait until an instant: for no longer
// than left, and within the deadline of ctx.
func InTime(ctx context.Context, left time.Duration, until time.Time) bool {
	deadline, ok := ctx.Deadline()
	return time.Until(until) <= left && (!ok || until.Before(deadline))
}

// tooLong is the error of a call that would have to wait until an instant; zero:
// it is not known.
func tooLong(key string, reason Reason, until time.Time) error {
	return &Error{Key: key, Reason: reason, Until: until, Err: core.ErrDeadline}
}
