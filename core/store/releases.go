package store

import (
	"sync"
	"time"
)

// releases are those of slots that are under way and that nobody waits for: a
// later decision of this process on the same bucket comes after them, and a
// store is closed after all. The zero value is ready for use. It is safe for
// concurrent use.
type releases struct {
	mu       sync.Mutex // guards underWay
	underWay map[bucketOf]*underWay
}

// bucketOf names a bucket.
type bucketOf struct{ policy, key string }

type underWay struct {
	n    int
	done chan struct{} // closed when all are answered
}

// Begin notes that a release of a bucket is under way, until done is called. It
// keeps key until then.
func (r *releases) Begin(policy, key string) (done func()) {
	b := bucketOf{policy, key}
	r.mu.Lock()
	defer r.mu.Unlock()
	u := r.underWay[b]
	if u == nil {
		u = &underWay{done: make(chan struct{})}
		if r.underWay == nil {
			r.underWay = make(map[bucketOf]*underWay)
		}
		r.underWay[b] = u
	}
	u.n++
	return func() {
		r.mu.Lock()
		defer r.mu.Unlock()
		if u.n--; u.n == 0 {
			delete(r.underWay, b)
			close(u.done)
		}
	}
}

// Of returns what is closed when the releases of a bucket that are under way
// are over; nil: there are none.
func (r *releases) Of(policy, key string) <-chan struct{} {
	r.mu.Lock()
	defer r.mu.Unlock()
	if u := r.underWay[bucketOf{policy, key}]; u != nil {
		return u.done
	}
	return nil
}

// first is Of for any bucket.
func (r *releases) first() <-chan struct{} {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, u := range r.underWay {
		return u.done
	}
	return nil
}

// WaitForAll waits until none is under way, for at most so long.
func (r *releases) WaitForAll(most time.Duration) {
	timer := time.NewTimer(most)
	defer timer.Stop()
	for over := r.first(); over != nil; over = r.first() {
		select {
		case <-over:
		case <-timer.C:
			return
		}
	}
}
