package core

import (
	"sync/atomic"
	"time"
)

// clock is the system's clock in microseconds. [time.Now] reads two clocks, the wall's and the monotonic
// one, each at the price of a bucket's whole arithmetic. This reads the second, and adds how far the
// wall's is ahead of it, which only changes when somebody sets the wall's: that is noticed within
// recheck.
//
// It is never ahead of time.Now, unless the wall's clock was set back within recheck. Its zero value is
// ready for use.
type clock struct {
	checked atomic.Int64 // when ahead was measured, on the monotonic clock; 0: never; measuring: somebody does
	ahead   atomic.Int64 // of the monotonic clock, in ns
}

const (
	recheck   = int64(time.Millisecond)
	measuring = -1 << 63
)

// start is where the monotonic clock counts from.
var start = time.Now()

// now is µs since 1970.
func (c *clock) now() int64 {
	elapsed := int64(time.Since(start))
	checked := c.checked.Load()
	ahead := c.ahead.Load()
	// In a synctest bubble both clocks tell another time. There as elsewhere only what was measured around
	// this instant, and not replaced meanwhile, holds.
	age := elapsed - checked
	if checked != 0 && checked != measuring && age >= 0 && age < recheck && c.checked.Load() == checked {
		return (elapsed + ahead) / 1000
	}
	now := time.Now()
	if checked != measuring && c.checked.CompareAndSwap(checked, measuring) {
		elapsed = int64(now.Sub(start))
		c.ahead.Store(now.UnixNano() - elapsed)
		c.checked.Store(elapsed)
	}
	return now.UnixMicro()
}
