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

// Acquire takes a slot of key, such as "user:7", and blocks until one is free
// or ctx ends. Call [Result.Release] when the work is over: middleware does not
// release what Acquire took. Work that may take longer than MaxHold also calls
// [Result.Keep].
//
// Callers of one process wait in the order of their calls. While they wait, the
// process asks the store at most 40 times a second. Between processes, and
// before a call of Allow, there is no order, but none starves.
//
// If another limit of the policy denies, Acquire waits for its tokens too. It
// returns at once, and takes nothing, with [ErrDeadline] if that would exceed
// ctx's deadline, with [ErrCapacity] if it would never end, and with Allow's
// error if there is no decision.
func (l *Limiter) Acquire(ctx context.Context, key string) (Result, error) {
	w := l.waiters.join(key)
	defer l.waiters.leave(w)
	select {
	case <-w.first:
	case <-ctx.Done():
		return Result{}, ctx.Err()
	}
	for here := l.waiters.releasedHere(key); ; { // here: a slot was released in this process just now
		if here && l.memory == nil && l.waiters.yields(key) {
			if err := leaveToOthers(ctx); err != nil {
				return Result{}, err
			}
		}
		res, err := l.Allow(ctx, key)
		if err != nil || res.Allowed {
			return res, err
		}
		pause, free, err := w.pause(ctx, &res)
		if err != nil {
			return Result{}, err
		}
		if here, err = sleep(ctx, pause, free); err != nil {
			return Result{}, err
		}
	}
}

// leaveToOthers waits for a pause, unless ctx's deadline is near.
func leaveToOthers(ctx context.Context) error {
	if deadline, ok := ctx.Deadline(); ok && time.Until(deadline) < 2*pollEvery {
		return nil
	}
	_, err := sleep(ctx, randomPause(), nil)
	return err
}

// sleep waits for pause or until released has a value, and reports the latter.
func sleep(ctx context.Context, pause time.Duration, released <-chan struct{}) (free bool, err error) {
	timer := time.NewTimer(pause)
	defer timer.Stop()
	select {
	case <-timer.C:
		return false, nil
	case <-released:
		return true, nil
	case <-ctx.Done():
		return false, ctx.Err()
	}
}

// pause returns how long to wait after a denial, and what ends it early.
func (w *waiter) pause(ctx context.Context, denied *Result) (pause time.Duration, free <-chan struct{}, err error) {
	if denied.RetryAfter == Never {
		return 0, nil, fmt.Errorf("%w: no wait is long enough", ErrCapacity)
	}
	for i := range denied.set.limits { // a limit with a rate has its tokens no earlier
		if !denied.set.Rates[i].Slots {
			pause = max(pause, denied.retryAfterOf(i))
		}
	}
	if deadline, ok := ctx.Deadline(); ok && pause > time.Until(deadline) {
		return 0, nil, fmt.Errorf("%w: the wait is %v", ErrDeadline, pause)
	}
	if pause > 0 {
		return pause, nil, nil
	}
	return min(randomPause(), denied.RetryAfter), w.line.released, nil
}

// pollEvery is the longest pause before Acquire asks the store again whether a
// slot is free. Pauses are half of it at least, at random, so that no process
// always comes first.
const pollEvery = 50 * time.Millisecond

// yieldEvery is how often a process leaves a released slot to others.
const yieldEvery = time.Second

// waiters are the callers of Acquire, by key.
type waiters struct {
	mu    sync.Mutex // guards all below
	lines map[string]*line
	turns *[64]turn // of keys, by a hash: those that share one only yield more rarely; nil: nobody has called Acquire
}

// turn is when slots of a key were last released here, and last left to others.
type turn struct{ released, yielded time.Time }

// seed is of the hash of keys.
var seed = maphash.MakeSeed()

// turnOf returns the turn of key. s.mu is held, and s.turns is not nil.
func (s *waiters) turnOf(key string) *turn {
	return &s.turns[maphash.String(seed, key)%uint64(len(s.turns))]
}

// releasedHere reports whether a slot of key was released in this process just
// now. A process that took it again and again at once would leave others no
// time to ask for it.
func (s *waiters) releasedHere(key string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return time.Since(s.turnOf(key).released) < pollEvery
}

// yields reports whether a released slot is for others: one is, every yieldEvery.
func (s *waiters) yields(key string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	t, now := s.turnOf(key), time.Now()
	if now.Sub(t.yielded) < yieldEvery {
		return false
	}
	t.yielded = now
	return true
}

// randomPause returns how long to wait before the store is asked again.
func randomPause() time.Duration { return pollEvery/2 + rand.N(pollEvery/2) }

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
