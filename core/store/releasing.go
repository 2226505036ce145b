package store

import (
	"sync/atomic"
	"time"
)

// releasing counts releases that nobody waits for, so that a store that is
// closed can. The zero value is ready for use. It is safe for concurrent use.
type releasing struct{ underWay atomic.Int64 }

// Begin notes that a release is under way, until done is called, once.
func (r *releasing) Begin() (done func()) {
	r.underWay.Add(1)
	return func() { r.underWay.Add(-1) }
}

// Wait waits until none is under way, for at most so long.
func (r *releasing) Wait(most time.Duration) {
	for began := time.Now(); r.underWay.Load() > 0 && time.Since(began) < most; {
		time.Sleep(time.Millisecond)
	}
}
