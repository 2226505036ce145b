package core

import (
	"context"
	"sync"
	"sync/atomic"
	"time"
)

// decide has r decided by Redis, together with what others ask at this moment.
func (s *RedisStore) decide(ctx context.Context, r Request) (Answer, error) {
	c := &call{key: redisKey(s.prefix, r.policy, r.key), request: r, done: make(chan struct{})}
	if s.breaker.open.Load() {
		// Closed or not, the breaker knows; whom it lets in may try whether Redis is back, alone.
		report, err := s.breaker.enter()
		if err != nil {
			return Answer{}, err
		}
		go s.flights(s.batcher.takeOff(c), report)
	} else if batch := s.batcher.board(c); batch != nil {
		if s.punctual && ctx.Done() == nil {
			// Nobody can call this caller away and the client minds the deadline, so it may go itself:
			// that spares a change of goroutines, which is what a lone decision costs most.
			s.flight(batch, nil, false)
			if next := s.batcher.land(); next != nil {
				go s.flights(next, nil)
			}
		} else {
			go s.flights(batch, nil)
		}
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

// flights sends batch, and then what has come meanwhile, until nobody waits. report is the breaker's
// for the first; nil has the breaker asked.
func (s *RedisStore) flights(batch []*call, report func(error)) {
	for batch != nil {
		if !s.flight(batch, report, true) {
			return // given up: another goroutine goes on
		}
		batch, report = s.batcher.land(), nil
	}
}

// flight sends one batch, if the breaker lets it. It returns false when it was given up, which only
// happens to one that is watched.
func (s *RedisStore) flight(batch []*call, report func(error), watched bool) bool {
	calls := boarded(batch)
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
	ctx, cancel := context.WithDeadline(context.Background(), s.deadline(calls[len(calls)-1]))
	defer cancel()
	if watched {
		return s.watch(ctx, calls, report)
	}
	outcomes, err := s.exchange(ctx, calls)
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
	mu      sync.Mutex // guards all below
	timer   *time.Timer
	calls   []*call // that are not answered yet, in the order of their coming
	givenUp bool
}

// watch sends calls and answers them, each at the latest when its caller has waited for the store's
// timeout. With the first of them the flight is given up, so that those who wait for the next are not late
// too: watch will return false. The others of this one may be answered yet.
func (s *RedisStore) watch(ctx context.Context, calls []*call, report func(error)) bool {
	w := &watched{calls: calls}
	w.mu.Lock()
	w.timer = time.AfterFunc(time.Until(s.deadline(calls[0])), func() {
		late, first := w.overdue(s)
		if len(late) == 0 {
			return
		}
		err := timeoutError(s.timeout)
		if first {
			report(err)
		}
		finish(late, nil, err)
		if first {
			s.flights(s.batcher.land(), nil)
		}
	})
	w.mu.Unlock()
	outcomes, err := s.exchange(ctx, calls)
	rest, givenUp := w.land()
	if !givenUp {
		report(err)
	}
	if outcomes != nil {
		outcomes = outcomes[len(calls)-len(rest):]
	}
	finish(rest, outcomes, err)
	return !givenUp
}

// overdue takes the calls whose time is up, and sets the timer for the next. It tells whether they are the
// first.
func (w *watched) overdue(s *RedisStore) (late []*call, first bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	n, now := 0, time.Now()
	for n < len(w.calls) && !now.Before(s.deadline(w.calls[n])) {
		n++
	}
	late, w.calls = w.calls[:n], w.calls[n:]
	if len(w.calls) > 0 {
		w.timer.Reset(s.deadline(w.calls[0]).Sub(now))
	}
	first = !w.givenUp
	w.givenUp = w.givenUp || n > 0
	return late, first
}

// land takes the calls whose time is not up.
func (w *watched) land() (rest []*call, givenUp bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.timer.Stop()
	rest, w.calls = w.calls, nil
	return rest, w.givenUp
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

// boarded are the calls of batch whose callers still wait, marked as sent.
func boarded(batch []*call) []*call {
	calls := batch[:0]
	for _, c := range batch {
		if c.state.CompareAndSwap(waiting, sent) {
			calls = append(calls, c)
		}
	}
	return calls
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
