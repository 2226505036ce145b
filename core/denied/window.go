package denied

import (
	"sync"
	"time"
)

// counted is what is counted of a policy: the denials of the window under way,
// and of the one before.
type counted struct {
	mu              sync.Mutex // guards all below
	since           time.Time  // when the window under way began; zero: none has
	denials, before *sketch    // before is nil after a window without denials
}

// rotate begins a new window if the one under way is over. c.mu is held.
func (c *counted) rotate(now time.Time, window time.Duration, most int) {
	switch age := now.Sub(c.since); {
	case c.since.IsZero() || age >= 2*window:
		c.before, c.denials, c.since = nil, newSketch(most), now
	case age >= window:
		c.before, c.denials, c.since = c.denials, newSketch(most), c.since.Add(window)
	}
}

func (c *counted) report(name string, now time.Time, window time.Duration, most int) Policy {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.rotate(now, window, most)
	p := c.denials.report(name, c.since, now)
	if c.before != nil {
		p = p.and(c.before.report(name, c.since.Add(-window), now))
	}
	p.sort()
	return p
}
