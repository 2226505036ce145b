package store

import (
	"sync"
	"sync/atomic"
	"time"
)

// pace counts events, and says which are logged: at most one in each interval.
// The zero value is ready for use. It is safe for concurrent use.
type pace struct {
	count atomic.Int64
	mu    sync.Mutex // guards last
	last  time.Time  // when an event was last logged
}

// Note counts an event. It reports whether the event is to be logged, because
// the last one that was is an interval ago.
func (p *pace) Note(interval time.Duration) bool {
	p.count.Add(1)
	p.mu.Lock()
	defer p.mu.Unlock()
	now := time.Now()
	if !p.last.IsZero() && now.Sub(p.last) < interval {
		return false
	}
	p.last = now
	return true
}
