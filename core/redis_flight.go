package core

import (
	"context"
	"fmt"
	"runtime"
	"sync"
	"sync/atomic"
	"time"
)

// decide has r decided by Redis, together with what others ask at this moment.
func (s *RedisStore) decide(ctx context.Context, r Request) (Answer, error) {
	c := &call{key: redisKey(s.prefix, r.policy, r.key), request: r, done: make(chan struct{})}
	if s.breaker.open.Load() {
		// Closed or not, the breaker knows: a call that it admits tries, alone, whether Redis is back.
		report, err := s.breaker.enter()
		if err != nil {
			return Answer{}, err
		}
		go s.trial(c, report)
	} else if next := s.batcher.board(c); len(next.batch) == 1 && s.punctual && ctx.Done() == nil {
		// ctx can't be cancelled and the client minds the deadline of a call, so the caller may send it
		// itself: that spares a change of goroutines, which is what a lone decision costs most.
		s.flight(next.batch, nil, false)
		if next = s.batcher.land(); !next.idle() {
			go s.flights(next, nil)
		}
	} else if !next.idle() {
		go s.flights(next, nil)
	}
	select {
	case <-c.done:
		return c.answer, c.err
	case <-ctx.Done():
		if !r.gives() { // what comes back comes back, whoever waits for that
			c.state.CompareAndSwap(waiting, left)
		}
		return Answer{}, ctx.Err()
	}
}

// flights sends the calls of a departure, and then what has come meanwhile, until nobody waits. report is the
// breaker's for the first of them; nil has the breaker asked.
func (s *RedisStore) flights(next departure, report func(error)) {
	for !next.idle() {
		switch {
		case next.connect > 0:
			began := time.Now()
			err := s.connect()
			s.batcher.connected(next.connect, err)
			if lost(err) {
				s.breaker.fail(began, err)
			}
			next = s.batcher.begin()
		case next.after > 0:
			time.Sleep(next.after)
			s.batcher.waited()
			next = s.batcher.begin()
		case !s.flight(next.batch, report, true):
			return // given up: another goroutine goes on
		default:
			next, report = s.batcher.land(), nil
		}
	}
}

// trial sends c to learn whether Redis is back, when there is a connection. c's caller waits for that no longer
// than for anything else; if it leaves, the next that comes is the trial.
func (s *RedisStore) trial(c *call, report func(error)) {
	c.since = time.Now()
	if n := s.batcher.lone(); n > 0 {
		impatient := time.AfterFunc(s.timeout, func() { s.dismiss([]*call{c}) })
		err := s.connect()
		s.batcher.connected(n, err)
		impatient.Stop()
		switch {
		case c.state.Load() == waiting: // its flight is the trial
		case lost(err):
			report(err)
			return
		default:
			report(gone{context.Canceled})
			return
		}
	}
	s.flights(s.batcher.takeOff(c), report)
}

// expire answers the calls that have waited in the queue for the store's timeout. That is Redis' failure only
// where they waited for a connection.
func (s *RedisStore) expire() {
	late, stranded := s.batcher.overdue()
	late = claimed(late, left)
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
func (s *RedisStore) dismiss(calls []*call) {
	if len(calls) > 0 {
		finish(claimed(calls, left), nil, fmt.Errorf("waited for too long to be asked: %w", timeoutError(s.timeout)))
	}
}

// flight sends one batch, if the breaker lets it. It returns false when it was given up, which only
// happens to one that is watched.
func (s *RedisStore) flight(batch []*call, report func(error), watched bool) bool {
	now := time.Now()
	// Calls that would be answered too late are not sent, or a queue of many would hold no others. The oldest
	// come first.
	back := now.Add(min(s.batcher.lately(), s.timeout/2))
	late := 0
	for late < len(batch) && !back.Before(s.deadline(batch[late])) {
		late++
	}
	s.dismiss(batch[:late:late])
	calls := claimed(batch[late:], sent)
	if len(calls) == 0 { // all have left
		if report != nil {
			report(gone{context.Canceled}) // the breaker waits for word of a trial, whatever became of it
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
	// What counts as Redis' is the time from now on: what its callers waited in the queue does not.
	if watched {
		return s.watch(calls, now, report)
	}
	ctx, cancel := context.WithDeadline(context.Background(), now.Add(s.timeout))
	defer cancel()
	outcomes, err := s.exchange(ctx, calls)
	s.batcher.flown(time.Since(now), err)
	report(err)
	finish(calls, outcomes, err)
	return true
}

// deadline is when c's caller has waited for the store's timeout.
func (s *RedisStore) deadline(c *call) time.Time { return c.since.Add(s.timeout) }

// exchange sends calls, and keeps the denials true that are repeated.
func (s *RedisStore) exchange(ctx context.Context, calls []*call) ([]outcome, error) {
	s.traffic.count(len(calls))
	s.denials.depart(calls)
	outcomes, err := s.send(ctx, calls)
	s.denials.arrive(calls, outcomes, err)
	return outcomes, err
}

// watched is a flight whose callers do not wait for go-redis, which may be stuck: it does not always stop
// reading when a context ends.
type watched struct {
	mu    sync.Mutex // guards all below
	timer *time.Timer
	calls []*call // that are not answered yet, in the order of their coming
	end   time.Time
	over  bool // landed, or given up
}

const (
	// nearly is how much earlier than its end a flight may be given up, so that it ends with the call of a
	// caller who did not have to wait for it.
	nearly = time.Millisecond
	// swift is how long a turn of the scheduler takes at most in a process that keeps up.
	swift = time.Millisecond
	// networkPoll is how often a process that does not keep up looks for what has come from the network.
	networkPoll = 10 * time.Millisecond
)

// watch sends calls and answers them, each at the latest when its caller has waited for the store's
// timeout. When the flight has taken that long itself it is given up, so that those who wait for the next
// are not late too: watch will return false.
func (s *RedisStore) watch(calls []*call, began time.Time, report func(error)) bool {
	// Twice the timeout: an answer that has come in time may be read late. See keepUp.
	ctx, cancel := context.WithDeadline(context.Background(), began.Add(2*s.timeout))
	defer cancel()
	w := &watched{calls: calls, end: began.Add(s.timeout)}
	w.mu.Lock()
	w.timer = time.AfterFunc(time.Until(s.deadline(calls[0])), func() {
		keepUp()
		late, givenUp := w.overdue(s)
		err := timeoutError(s.timeout)
		if givenUp {
			s.batcher.flown(s.timeout, err)
			report(err)
		}
		finish(late, nil, err)
		if givenUp {
			s.flights(s.batcher.land(), nil)
		}
	})
	w.mu.Unlock()
	outcomes, err := s.exchange(ctx, calls)
	rest, givenUp := w.land()
	if !givenUp {
		s.batcher.flown(time.Since(began), err)
		report(err)
	}
	if outcomes != nil {
		outcomes = outcomes[len(calls)-len(rest):]
	}
	finish(rest, outcomes, err)
	return !givenUp
}

// keepUp lets goroutines run that were ready before, and those whose answers have come: with thousands of
// others, they may be late where the server was not.
func keepUp() {
	began := time.Now()
	runtime.Gosched()
	if time.Since(began) > swift {
		time.Sleep(networkPoll)
		runtime.Gosched()
	}
}

// overdue takes the calls whose time is up, and sets the timer for the next, or gives the flight up. There are
// none, and it does neither, when the flight has landed.
func (w *watched) overdue(s *RedisStore) (late []*call, givenUp bool) {
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

// land takes the calls whose time is not up. givenUp tells that the flight was over before.
func (w *watched) land() (rest []*call, givenUp bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.timer.Stop()
	rest, w.calls = w.calls, nil
	givenUp, w.over = w.over, true
	return rest, givenUp
}

// call is one decision on its way to Redis and back.
type call struct {
	key     string // as Redis knows it
	request Request
	since   time.Time // when its caller began to wait: in the order of the queue

	state atomic.Uint32 // of those below

	// Set before done is closed, read after.
	answer Answer
	err    error
	done   chan struct{}
}

// The states of a call. It is sent only from waiting, so that a caller who left the queue pays nothing.
const (
	waiting uint32 = iota
	sent
	left
)

// claimed are those of calls that still wait, which are in state from now on: nobody else sends or answers
// them.
func claimed(calls []*call, state uint32) []*call {
	still := calls[:0]
	for _, c := range calls {
		if c.state.CompareAndSwap(waiting, state) {
			still = append(still, c)
		}
	}
	return still
}

// outcome is the answer to one call.
type outcome struct {
	answer Answer
	err    error
}

// finish answers calls: with their outcomes, or all with err where there are none.
func finish(calls []*call, outcomes []outcome, err error) {
	for i, c := range calls {
		o := outcomeOf(i, outcomes, err)
		c.answer, c.err = o.answer, o.err
		close(c.done)
	}
}

// outcomeOf is that of the i-th of calls that send answered.
func outcomeOf(i int, outcomes []outcome, err error) outcome {
	if outcomes == nil {
		return outcome{err: err}
	}
	return outcomes[i]
}
