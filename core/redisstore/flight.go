package redisstore

import (
	"context"
	"fmt"
	"runtime"
	"sync"
	"time"

	"github.com/tokenbucket-go/ratelimit/core"
)

// board has r decided by Redis, together with what others ask at this moment.
func (s *Store) board(ctx context.Context, r core.Request) (core.Answer, error) {
	c := &call{key: redisKey(s.prefix, r.Policy(), r.Key()), request: r, done: make(chan struct{})}
	if s.breaker.open.Load() {
		// The breaker knows whether it is still open. A call that it admits is a trial and is sent alone.
		report, err := s.breaker.enter()
		if err != nil {
			return core.Answer{}, err
		}
		go s.trial(c, report)
	} else if next := s.queue.add(c); len(next.batch) == 1 && s.punctual && ctx.Done() == nil {
		// ctx can't be cancelled and the client minds the deadline of a call, so the caller may send it itself. That
		// spares a change of goroutines, which is what a lone decision costs most.
		s.fly(next.batch, nil, false)
		if next = s.queue.landed(); !next.idle() {
			go s.depart(next, nil)
		}
	} else if !next.idle() {
		go s.depart(next, nil)
	}
	select {
	case <-c.done:
		return c.answer, c.err
	case <-ctx.Done():
		if !r.Gives() { // tokens are returned whether or not the caller waits for that
			c.state.CompareAndSwap(waiting, left)
		}
		return core.Answer{}, ctx.Err()
	}
}

// depart does what a departure says, and then sends what has come meanwhile, until nobody waits. report is the
// breaker's for the first flight; if it is nil the breaker is asked.
func (s *Store) depart(next departure, report func(error)) {
	for !next.idle() {
		switch {
		case next.connect > 0:
			began := time.Now()
			err := s.connect()
			s.queue.connected(next.connect, err)
			if lost(err) {
				s.breaker.fail(began, err)
			}
			next = s.queue.begin()
		case next.after > 0:
			time.Sleep(next.after)
			s.queue.waited()
			next = s.queue.begin()
		case !s.fly(next.batch, report, true):
			return // the flight was given up, and another goroutine goes on
		default:
			next, report = s.queue.landed(), nil
		}
	}
}

// trial sends c to learn whether Redis is back, as soon as there is a connection. c's caller waits no longer for that
// than for anything else. If it leaves, the next call that the breaker admits is the trial.
func (s *Store) trial(c *call, report func(error)) {
	c.since = time.Now()
	if nth := s.queue.connectFirst(); nth > 0 {
		impatient := time.AfterFunc(s.timeout, func() { s.dismiss([]*call{c}) })
		err := s.connect()
		s.queue.connected(nth, err)
		impatient.Stop()
		switch {
		case c.state.Load() == waiting: // its flight is the trial
		case lost(err):
			report(err)
			return
		default:
			report(callerLeft{context.Canceled})
			return
		}
	}
	s.depart(s.queue.alone(c), report)
}

// expire answers the calls that have waited in the queue for the store's timeout. That is a failure of Redis only where
// they waited for a connection.
func (s *Store) expire() {
	late, stranded := s.queue.overdue()
	late = claim(late, left)
	if len(late) == 0 {
		return
	}
	err := timeoutError(s.timeout)
	if stranded {
		s.breaker.fail(late[0].since, fmt.Errorf("no connection: %w", err))
	}
	finish(late, nil, err)
}

// dismiss answers those of calls that were not sent, and will not be.
func (s *Store) dismiss(calls []*call) {
	if len(calls) > 0 {
		finish(claim(calls, left), nil, fmt.Errorf("waited for too long to be sent: %w", timeoutError(s.timeout)))
	}
}

// fly sends one batch, if the breaker admits it. A watched flight may be given up; fly returns false then.
func (s *Store) fly(batch []*call, report func(error), watched bool) (landed bool) {
	now := time.Now()
	// Calls that would be answered too late are not sent, or a long queue would hold nothing else. The oldest come
	// first.
	back := now.Add(min(s.queue.lately(), s.timeout/2))
	late := 0
	for late < len(batch) && !back.Before(s.deadline(batch[late])) {
		late++
	}
	s.dismiss(batch[:late:late])
	calls := claim(batch[late:], sent)
	if len(calls) == 0 { // all have left
		if report != nil {
			report(callerLeft{context.Canceled}) // the breaker must hear of a trial, whatever became of it
		}
		return true
	}
	if report == nil {
		var err error
		if report, err = s.breaker.enter(); err != nil {
			finish(calls, nil, err)
			return true
		}
	}
	// Only the time from now on is Redis'. What the callers waited in the queue is not.
	if watched {
		return s.flyWatched(calls, now, report)
	}
	ctx, cancel := context.WithDeadline(context.Background(), now.Add(s.timeout))
	defer cancel()
	outcomes, err := s.exchange(ctx, calls)
	s.queue.note(time.Since(now), err)
	report(err)
	finish(calls, outcomes, err)
	return true
}

// deadline is when c's caller has waited for the store's timeout.
func (s *Store) deadline(c *call) time.Time { return c.since.Add(s.timeout) }

// exchange sends calls, and keeps the deny cache true to what they do.
func (s *Store) exchange(ctx context.Context, calls []*call) ([]outcome, error) {
	s.traffic.count(len(calls))
	s.denials.depart(calls)
	outcomes, err := s.send(ctx, calls)
	s.denials.arrive(calls, outcomes, err)
	return outcomes, err
}

// watched is a flight whose callers do not wait for go-redis. That may be stuck: it does not always stop reading when a
// context ends.
type watched struct {
	mu    sync.Mutex // guards all below
	timer *time.Timer
	calls []*call // that are not answered yet, in the order of their coming
	end   time.Time
	over  bool // landed, or given up
}

const (
	// nearly is how much earlier than its end a flight may be given up, so that it ends together with the call of a
	// caller who did not have to wait for it.
	nearly = time.Millisecond
	// swift is how long a turn of the scheduler takes at most in a process that keeps up.
	swift = time.Millisecond
	// networkPoll is how often a process that does not keep up looks for what has come from the network.
	networkPoll = 10 * time.Millisecond
)

// flyWatched sends calls and answers each of them, at the latest when its caller has waited for the store's timeout. If
// the flight itself takes that long it is given up, so that those who wait for the next are not late too.
func (s *Store) flyWatched(calls []*call, began time.Time, report func(error)) (landed bool) {
	// Twice the timeout: an answer that has come in time may be read late. See keepUp.
	ctx, cancel := context.WithDeadline(context.Background(), began.Add(2*s.timeout))
	defer cancel()
	w := &watched{calls: calls, end: began.Add(s.timeout)}
	w.mu.Lock() // until the timer is set, which its function resets
	w.timer = time.AfterFunc(time.Until(s.deadline(calls[0])), func() {
		keepUp()
		late, givenUp := w.overdue(s)
		err := timeoutError(s.timeout)
		if givenUp {
			s.queue.note(s.timeout, err)
			report(err)
		}
		finish(late, nil, err)
		if givenUp {
			s.depart(s.queue.landed(), nil)
		}
	})
	w.mu.Unlock()
	outcomes, err := s.exchange(ctx, calls)
	rest, givenUp := w.land()
	if !givenUp {
		s.queue.note(time.Since(began), err)
		report(err)
	}
	if outcomes != nil {
		outcomes = outcomes[len(calls)-len(rest):]
	}
	finish(rest, outcomes, err)
	return !givenUp
}

// keepUp lets goroutines run that were ready before, and those whose answers have come: with thousands of others, they
// may be late where the server was not.
func keepUp() {
	began := time.Now()
	runtime.Gosched()
	if time.Since(began) > swift {
		time.Sleep(networkPoll)
		runtime.Gosched()
	}
}

// overdue takes the calls whose time is up. It sets the timer for the next, or gives the flight up. If the flight has
// landed it does nothing.
func (w *watched) overdue(s *Store) (late []*call, givenUp bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.over {
		return nil, false
	}
	n, now := 0, time.Now()
	w.over = !now.Before(w.end.Add(-nearly))
	for n < len(w.calls) && (w.over || !now.Before(s.deadline(w.calls[n]))) {
		n++
	}
	late, w.calls = w.calls[:n], w.calls[n:]
	if !w.over {
		next := w.end
		if len(w.calls) > 0 {
			next = s.deadline(w.calls[0])
		}
		w.timer.Reset(next.Sub(now))
	}
	return late, w.over
}

// land takes the calls whose time is not up. It reports whether the flight was given up before.
func (w *watched) land() (rest []*call, givenUp bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.timer.Stop()
	rest, w.calls = w.calls, nil
	givenUp, w.over = w.over, true
	return rest, givenUp
}
