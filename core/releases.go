package core

import (
	"context"
	"time"

	"github.com/tokenbucket-go/ratelimit/core/internal/bucket"
	"github.com/tokenbucket-go/ratelimit/core/internal/gather"
)

// cancelTimeout bounds how long a WaitN whose context has ended waits for the store to cancel its reservation, and a decision for
// releases under way.
const cancelTimeout = 50 * time.Millisecond

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
// for at most cancelTimeout, because a store may not answer.
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
