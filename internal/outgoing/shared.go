package outgoing

import (
	"context"
	"time"

	"github.com/tokenbucket-go/ratelimit/core"
)

// Shared is the pauses of all processes that have a store in common.
//
// A pause is kept as a bucket of milliseconds, which refills with the time:
// taking d of them from a full bucket leaves one that is full again when the
// pause is over. Taking tells in one step what was missing before. What both
// pauses have in common is given back, so a pause lasts as long as the longest
// one that was asked for.
type Shared struct {
	limiter *core.Limiter
}

// checkEvery is how often a key's shared pause is looked up.
const checkEvery = 100 * time.Millisecond

// NewShared returns the pauses of a store.
func NewShared(store core.Store) (*Shared, error) {
	l, err := core.NewLimiter(store, core.Policy{
		Name:      "client-pauses",
		OnFailure: core.FailOpen, // a store that is away pauses nobody
		Limits: []core.Limit{{
			Name: "milliseconds", Capacity: 4 * longestPause.Milliseconds(),
			RefillRate: 1000, RefillInterval: time.Second,
		}},
	})
	if err != nil {
		return nil, err
	}
	return &Shared{limiter: l}, nil
}

// due reports whether a lane's shared pause is to be looked up. l.mu is held.
func (s *Shared) due(l *lane, now time.Time) bool {
	return s != nil && now.Sub(l.checked) >= checkEvery
}

// left returns how long a key's pause lasts. Without an answer of the store
// there is none.
func (s *Shared) left(ctx context.Context, key string) time.Duration {
	res, err := s.limiter.Peek(ctx, key)
	if err != nil {
		return 0
	}
	return res.ResetAfter
}

// begin has all processes pause.
func (s *Shared) begin(ctx context.Context, key string, d time.Duration) {
	if s == nil || d < time.Millisecond {
		return
	}
	ctx = context.WithoutCancel(ctx)
	asked := d.Milliseconds()
	res, err := s.limiter.AllowN(ctx, key, asked)
	if err != nil || !res.Allowed {
		return // the store is away, or the pause is long enough
	}
	if before := res.ResetAfter.Milliseconds() - asked; before > 0 {
		_ = s.limiter.Refund(ctx, key, min(before, asked))
	}
}
