package breaker

import (
	"sync"
	"time"
)

// Group counts for the breakers of a store together. The zero value is ready.
type Group struct {
	mu     sync.Mutex // guards all below, and the reading of the clock, so that the time away never decreases
	opened int64
	open   int // how many are not closed
	before time.Duration
	since  time.Time // when the first of those that are not closed opened
}

// Opened is how often breakers have opened.
func (g *Group) Opened() int64 {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.opened
}

// Away is for how long a breaker was not closed: one or several.
func (g *Group) Away() time.Duration {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.away()
}

// away requires that g.mu is held.
func (g *Group) away() time.Duration {
	if g.open == 0 {
		return g.before
	}
	return g.before + time.Since(g.since)
}

// changed notes that b opened, or that it closed.
func (g *Group) changed(b *Breaker, open bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	switch {
	case b.retired || b.open.Swap(open) == open:
	case open:
		if g.opened++; g.open == 0 {
			g.since = time.Now()
		}
		g.open++
	default:
		g.before, g.since = g.away(), time.Now()
		g.open--
	}
}
