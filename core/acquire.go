package core

import (
	"container/list"
	"context"
	"fmt"
	"hash/maphash"
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
	if l.memory == nil && l.waiters.takesAgain(key) {
		pause := randomPause()
		if deadline, ok := ctx.Deadline(); !ok || time.Until(deadline) > 2*pause {
			if err := sleep(ctx, pause, nil); err != nil {
				return Result{}, err
			}
		}
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
		if err := sleep(ctx, pause, free); err != nil {
			return Result{}, err
		}
	}
}

// randomPause returns how long to wait before the store is asked again.
func randomPause() time.Duration { return pollEvery/2 + rand.N(pollEvery/2) }

// sleep waits for pause, or until free has a value. If ctx ends before, it returns ctx's error.
func sleep(ctx context.Context, pause time.Duration, free <-chan struct{}) error {
	timer := time.NewTimer(pause)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-free:
	case <-ctx.Done():
		return ctx.Err()
	}
	return nil
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
	pause = min(denied.RetryAfter, randomPause())
	if l.memory == nil && l.waiters.yields(w.key) {
		return pause, nil, nil
	}
	return pause, w.line.released, nil
}

// waiters are the callers of Acquire, by key.
type waiters struct {
	mu    sync.Mutex // guards all below
	lines map[string]*line
	turns *[64]turn // of keys, by a hash: those that share one only yield more rarely; nil: nobody has called Acquire
}

// turn is when slots of a key were last released in this process, and last left to other processes.
type turn struct{ released, yielded time.Time }

// seed is of the hash of keys.
var seed = maphash.MakeSeed()

// turnOf returns the turn of key. s.mu is held, and s.turns is not nil.
func (s *waiters) turnOf(key string) *turn {
	return &s.turns[maphash.String(seed, key)%uint64(len(s.turns))]
}

// yields reports whether the next slot of key is for other processes. It is, once every yieldEvery.
func (s *waiters) yields(key string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.turnOf(key).yields(time.Now())
}

// takesAgain reports whether a slot of key was released here just now, and is for other processes: a process that takes the slot
// again and again at once would leave them no time to ask for it.
func (s *waiters) takesAgain(key string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	t, now := s.turnOf(key), time.Now()
	return now.Sub(t.released) < pollEvery && t.yields(now)
}

// yields is that of waiters.
func (t *turn) yields(now time.Time) bool {
	if now.Sub(t.yielded) < yieldEvery {
		return false
	}
	t.yielded = now
	return true
}

// line is the callers of Acquire that wait for slots of a key.
type line struct {
	waiting  list.List     // of *waiter, the first one first
	released chan struct{} // has a value if a slot was released
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
		s.lines, s.turns = make(map[string]*line), new([64]turn)
	}
	if t := s.turnOf(key); t.yielded.IsZero() {
		t.yielded = time.Now()
	}
	n := s.lines[key]
	if n == nil {
		n = &line{released: make(chan struct{}, 1)}
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
	if s.turns != nil {
		s.turnOf(key).released = time.Now()
	}
	if n := s.lines[key]; n != nil {
		select {
		case n.released <- struct{}{}:
		default:
		}
	}
}
