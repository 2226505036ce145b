package core

import (
	"context"
	"sync/atomic"
	"time"
)

// decide has r decided by Redis, together with what others ask at this moment.
func (s *RedisStore) decide(ctx context.Context, r Request) (Answer, error) {
	c := &call{key: redisKey(s.prefix, r.policy, r.key), request: r, since: time.Now(), done: make(chan struct{})}
	if s.breaker.open.Load() {
		// Closed or not, the breaker knows; whom it lets in may try whether Redis is back, alone.
		report, err := s.breaker.enter()
		if err != nil {
			return Answer{}, err
		}
		s.batcher.takeOff()
		go s.flights([]*call{c}, report)
	} else if batch := s.batcher.board(c); batch != nil {
		if s.minds && ctx.Done() == nil {
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
		c.state.CompareAndSwap(waiting, left)
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
	ctx, cancel := context.WithDeadline(context.Background(), calls[0].since.Add(s.timeout))
	defer cancel()
	if watched {
		return s.watch(ctx, calls, report)
	}
	outcomes, err := s.exchange(ctx, calls)
	report(err)
	finish(calls, outcomes, err)
	return true
}

// exchange sends calls, and keeps the denials true that are repeated.
func (s *RedisStore) exchange(ctx context.Context, calls []*call) ([]outcome, error) {
	s.denials.depart(calls)
	outcomes, err := s.send(ctx, calls)
	s.denials.arrive(calls, outcomes, err)
	return outcomes, err
}

// watch sends calls and answers them, at the latest when the first of their callers has waited for the
// store's timeout. go-redis may be stuck then, because it does not always stop reading when a context
// ends: the flight is given up, watch returns false, and when go-redis returns nobody listens.
func (s *RedisStore) watch(ctx context.Context, calls []*call, report func(error)) bool {
	var ended atomic.Bool
	stop := context.AfterFunc(ctx, func() {
		if ended.CompareAndSwap(false, true) {
			err := errTimeout(s.timeout)
			report(err)
			finish(calls, nil, err)
			s.flights(s.batcher.land(), nil)
		}
	})
	outcomes, err := s.exchange(ctx, calls)
	stop()
	if !ended.CompareAndSwap(false, true) {
		return false
	}
	report(err)
	finish(calls, outcomes, err)
	return true
}

// call is one decision on its way to Redis and back.
type call struct {
	key     string // as Redis knows it
	request Request
	since   time.Time // when its caller began to wait

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

// finish answers calls: with their outcomes, or all with err.
func finish(calls []*call, outcomes []outcome, err error) {
	for i, c := range calls {
		if c.err = err; err == nil {
			c.answer, c.err = outcomes[i].answer, outcomes[i].err
		}
		close(c.done)
	}
}
