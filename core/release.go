package core

import (
	"context"
	"strings"
	"time"

	"github.com/tokenbucket-go/ratelimit/core/internal/bucket"
	"github.com/tokenbucket-go/ratelimit/core/internal/gather"
)

// releases are those under way that nobody waits for. Releases of one key share calls.
type releases struct {
	calls gather.Calls[releasesOf, bucket.Ending]
}

// releasesOf is what releases have in common that share a call.
type releasesOf struct {
	slots *bucket.Plan
	key   string
}

// before waits until the releases of key that are under way are done, so that a decision of this process comes after them. It waits
// for at most cancelTimeout: a store may not answer.
func (r *releases) before(ctx context.Context, slots *bucket.Plan, key string) error {
	done := r.calls.Pending(releasesOf{slots, key})
	if done == nil {
		return nil
	}
	timer := time.NewTimer(cancelTimeout)
	defer timer.Stop()
	select {
	case <-done:
	case <-timer.C:
	case <-ctx.Done():
		return callerDone{ctx.Err()}
	}
	return nil
}

// releaseSoon is Release for middleware, whose response must not wait for a store: it returns at once. The release is sent once.
func (r *Result) releaseSoon() {
	if !r.hasSlots() {
		return
	}
	if r.limiter.memory != nil || r.Source == FromFallback { // these never wait
		_ = r.Release(context.Background())
		return
	}
	if r.held.mu.TryLock() {
		r.startRelease()
		return
	}
	go func() { // a Hold is under way
		r.held.mu.Lock()
		r.startRelease()
	}()
}

// startRelease begins to release r's slots. It unlocks r.held.mu, which is held.
func (r *Result) startRelease() {
	defer r.held.mu.Unlock()
	if r.held.released {
		return
	}
	r.held.released = true
	r.held.inUse.lose(true)
	l, p, source, key := r.limiter, r.plan.slots, r.Source, strings.Clone(r.key) // which may be reused when the response is over
	l.releases.calls.Add(releasesOf{p, key}, r.held.ending(), func(holds []bucket.Ending) error {
		_ = l.release(context.Background(), p, source, key, holds)
		return nil // it is not sent again: the store may have ended them, or MaxHold does
	})
}
