package circuit

import (
	"sync"
	"time"
)

// Group counts the outages of all breakers of a store. Set its exported fields before you use it.
type Group struct {
	Name     string             // of the store in the log, such as "Redis"
	Describe func(error) string // what is wrong with the store, by the error of a call, such as "Redis does not answer"

	mu     sync.Mutex    // guards all below; the clock is read under it, so that Away never decreases
	opened int64         // how often breakers have opened
	open   int           // how many breakers are not closed
	before time.Duration // how long breakers were not closed, before since
	since  time.Time     // the beginning of the time that before does not have, while open > 0
}

// Opened is how often breakers have opened.
func (g *Group) Opened() int64 {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.opened
}

// Away is how long at least one breaker was not closed, in total.
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

// changed notes that b opened or closed.
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
