package core

import (
	"container/list"
	"context"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"time"
)

const (
	// pollEvery is the longest pause before Acquire asks the store again whether a slot is free. Pauses are half of it at least, at
	// random, so that no process always comes first.
	pollEvery = 50 * time.Millisecond
	// yieldEvery is how often slots that are released in a process are left to others for one pause.
	yieldEvery = time.Second
)

// Acquire is Allow, but blocks until key has a free slot, or ctx ends. Middleware does not release what Acquire took: call
// [Result.Release].
//
// Callers of one process wait in the order of their calls, and only the first of them asks the store: at once when a slot of the key
// is released in this process, and else 20 to 40 times a second. Once a second it leaves a slot that was released here to other
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
	for {
		res, err := l.Allow(ctx, key)
		if err != nil || res.Allowed {
			return res, err
		}
		pause, free, err := l.pause(ctx, &res, w)
		if err != nil {
			return Result{}, err
		}
		timer := time.NewTimer(pause)
		select {
		case <-timer.C:
		case <-free:
			timer.Stop()
		case <-ctx.Done():
			timer.Stop()
			return Result{}, ctx.Err()
		}
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
	pause = min(denied.RetryAfter, pollEvery/2+rand.N(pollEvery/2))
	if now := time.Now(); l.memory == nil && now.Sub(w.line.yielded) >= yieldEvery {
		w.line.yielded = now
		return pause, nil, nil
	}
	return pause, w.line.released, nil
}

// waiters are the callers of Acquire, by key.
type waiters struct {
	mu    sync.Mutex // guards all below
	lines map[string]*line
}

// line is the callers of Acquire that wait for slots of a key.
type line struct {
	waiting  list.List     // of *waiter, the first one first
	released chan struct{} // has a value if a slot was released
	yielded  time.Time     // when a slot was last left to other processes; used by the first waiter alone
}

// waiter is a caller of Acquire.
type waiter struct {
	key   string
	line  *line
	place *list.Element
	first chan struct{} // closed when nobody waits in front
}

// join adds a caller behind all others that wait for a slot of key.
func (s *waiters) join(key string) *waiter {
	key = strings.Clone(key) // it may be a view of a buffer that its owner reuses
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.lines == nil {
		s.lines = make(map[string]*line)
	}
	n := s.lines[key]
	if n == nil {
		n = &line{released: make(chan struct{}, 1), yielded: time.Now()}
		s.lines[key] = n
	}
	w := &waiter{key: key, line: n, first: make(chan struct{})}
	if w.place = n.waiting.PushBack(w); n.waiting.Len() == 1 {
		close(w.first)
	}
	return w
}

// leave removes a caller. If it was the first, the next one becomes it.
func (s *waiters) leave(w *waiter) {
	s.mu.Lock()
	defer s.mu.Unlock()
	first := w.line.waiting.Front() == w.place
	w.line.waiting.Remove(w.place)
	switch next := w.line.waiting.Front(); {
	case next == nil:
		delete(s.lines, w.key)
	case first:
		close(next.Value.(*waiter).first)
	}
}

// wake has the first waiter for a slot of key ask again.
func (s *waiters) wake(key string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if n := s.lines[key]; n != nil {
		select {
		case n.released <- struct{}{}:
		default:
		}
	}
}
