package store

import (
	"slices"
	"sync"
	"time"
)

const (
	// prolongedIn is how often slots are prolonged in a MaxHold, as one call may
	// fail.
	prolongedIn = 3
	// prolongedAtOnce is how many calls a round of prolonging has under way.
	prolongedAtOnce = 64
)

// prolonged is the work under way of all limiters of a store that holds slots
// until it is over. One timer prolongs them: it runs while there are any. The
// zero value is ready for use. It is safe for concurrent use.
type prolonged struct {
	mu    sync.Mutex // guards all below
	work  map[*work]struct{}
	timer *time.Timer // calls round; nil until it is first needed
	next  time.Time   // when it does; zero: it does not
}

type work struct {
	extend func() (again bool)
	every  time.Duration
	due    time.Time
}

// Begin has extend called three times within each hold, in another goroutine,
// until it returns false, or end is called. end reports whether it was the first
// of these.
func (p *prolonged) Begin(hold time.Duration, extend func() (again bool)) (end func() bool) {
	w := &work{extend: extend, every: hold / prolongedIn}
	p.mu.Lock()
	defer p.mu.Unlock()
	w.due = time.Now().Add(w.every)
	if p.work == nil {
		p.work = make(map[*work]struct{})
	}
	p.work[w] = struct{}{}
	if p.next.IsZero() || w.due.Before(p.next) {
		p.setTimer(w.due)
	}
	return func() bool { return p.end(w) }
}

func (p *prolonged) end(w *work) (first bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	_, first = p.work[w]
	delete(p.work, w)
	return first
}

// round prolongs what is due, and sets the timer for the next round.
func (p *prolonged) round() {
	for some := range slices.Chunk(p.due(), prolongedAtOnce) {
		var all sync.WaitGroup
		for _, w := range some {
			all.Go(func() {
				if !w.extend() {
					p.end(w)
				}
			})
		}
		all.Wait()
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.next = time.Time{}
	var first time.Time
	for w := range p.work {
		if first.IsZero() || w.due.Before(first) {
			first = w.due
		}
	}
	if !first.IsZero() {
		p.setTimer(first)
	}
}

// due returns the work that is due, or soon will be, so that there are few
// rounds. It notes when that is due again.
func (p *prolonged) due() (list []*work) {
	p.mu.Lock()
	defer p.mu.Unlock()
	now := time.Now()
	for w := range p.work {
		if w.due.Sub(now) <= w.every/4 {
			w.due = now.Add(w.every)
			list = append(list, w)
		}
	}
	return list
}

// setTimer has round called at an instant. p.mu is held.
func (p *prolonged) setTimer(at time.Time) {
	p.next = at
	if p.timer == nil {
		p.timer = time.AfterFunc(time.Until(at), p.round)
		return
	}
	p.timer.Reset(time.Until(at))
}
