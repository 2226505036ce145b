// Package limittest holds what tests of limiters share: a clock, limiters that fail closed, and generators for property
// tests.
package limittest

import (
	"sync"
	"time"
)

// Clock stands still until it is moved, between 1971 and 2112.
type Clock struct {
	mu  sync.Mutex
	now time.Time
}

var (
	Earliest = time.Date(1971, time.January, 1, 0, 0, 0, 0, time.UTC)
	Latest   = time.Date(2112, time.January, 1, 0, 0, 0, 0, time.UTC)
)

// NewClock returns a clock that shows an instant in 2026.
func NewClock() *Clock { return ClockAt(time.Date(2026, time.March, 4, 10, 20, 30, 0, time.UTC)) }

// ClockAt returns a clock that shows now.
func ClockAt(now time.Time) *Clock { return &Clock{now: now} }

func (c *Clock) Now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.now
}

func (c *Clock) Move(d time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if to := c.now.Add(d); to.After(Earliest) && to.Before(Latest) {
		c.now = to
	}
}
