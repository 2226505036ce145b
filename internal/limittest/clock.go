// Package limittest holds what tests of limiters share: a clock, limiters that
// fail closed, and stores. It links nothing but package core, so that tests in all
// modules can use it.
package limittest

import (
	"sync"
	"time"
)

// Clock stands still until it is moved, within the range that a clock may show.
type Clock struct {
	mu  sync.Mutex
	now time.Time
}

// The ends of the range that a clock may show.
var (
	Earliest = time.Unix(0, 0).UTC()
	Latest   = time.UnixMicro(1 << 52).UTC()
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
	if to := c.now.Add(d); !to.Before(Earliest) && !to.After(Latest) {
		c.now = to
	}
}
