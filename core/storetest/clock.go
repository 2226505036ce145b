package storetest

import (
	"sync"
	"time"
)

// start is half past a minute, so that minutes since start and minutes of the
// clock differ.
var start = time.Date(2026, time.March, 4, 10, 20, 30, 0, time.UTC)

// testClock stands still until a rule moves it, or advances by a tick whenever
// it is read.
type testClock struct {
	mu   sync.Mutex
	now  time.Time
	tick time.Duration
}

// Now returns the clock's time.
func (c *testClock) Now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.now = c.now.Add(c.tick)
	return c.now
}

// run makes the clock advance by d whenever it is read.
func (c *testClock) run(d time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.tick = d
}

// move moves the clock by d, back if d is negative.
func (c *testClock) move(d time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.now = c.now.Add(d)
}

// at moves the clock to t.
func (c *testClock) at(t time.Time) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.now = t
}
