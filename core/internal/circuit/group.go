package circuit

import (
	"sync"
	"time"
)

// Group counts the outages of all breakers of a store. Set its exported fields
// before you use it.
type Group struct {
	Name     string             // the store's name in the log, such as "Redis"
	Describe func(error) string // returns what is wrong with the store if a call has this error, such as "Redis does not answer"
	Open     func()             // called when a breaker opens, with locks held; may be nil

	mu     sync.Mutex    // guards all below; the clock is read under it, so that Away never decreases
	opened int64         // see Opened
	open   int           // how many breakers are not closed
	before time.Duration // Away until since, if breakers are not closed now; otherwise all of Away
	since  time.Time
}

func (g *Group) Opened() int64 {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.opened
}

// Away returns for how long at least one breaker was not closed, in total.
func (g *Group) Away() time.Duration {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.away()
}

func (g *Group) away() time.Duration {
	if g.open == 0 {
		return g.before
	}
	return g.before + time.Since(g.since)
}

// changed sets b.open and counts the change, if it is one.
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
		if g.Open != nil {
			g.Open()
		}
	default:
		g.before, g.since = g.away(), time.Now()
		g.open--
	}
}
