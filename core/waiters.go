package core

import (
	"container/list"
	"hash/maphash"
	"math/rand/v2"
	"strings"
	"sync"
	"time"
)

// pollEvery is the longest pause before Acquire asks the store again whether a slot is free. Pauses are half of it at least, at
// random, so that no process always comes first.
const pollEvery = 50 * time.Millisecond

// yieldEvery is how often slots that are released in a process are left to others for one pause.
const yieldEvery = time.Second

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

// releasedHere reports whether a slot of key was released in this process just now. A process that took it again and again at once
// would leave others no time to ask for it.
func (s *waiters) releasedHere(key string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return time.Since(s.turnOf(key).released) < pollEvery
}

// yields reports whether a slot of key that was released here is for other processes: one is, every yieldEvery.
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

// any reports whether somebody waits for key.
func (s *waiters) any(key string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.lines[key] != nil
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
