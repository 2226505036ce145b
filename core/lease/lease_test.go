package lease_test

import (
	"context"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/tokenbucket-go/ratelimit/core"
	"github.com/tokenbucket-go/ratelimit/core/internal/bucket"
	"github.com/tokenbucket-go/ratelimit/core/internal/hook"
	"github.com/tokenbucket-go/ratelimit/core/lease"
	"github.com/tokenbucket-go/ratelimit/core/store"
)

func TestLeasesOfSeveralProcessesAdmitTheCapacity(t *testing.T) {
	now := time.Unix(1_000_000, 0)
	below := core.NewMemoryStore(core.WithClock(func() time.Time { return now }))
	const capacity, processes = 5000, 4
	var admitted, leased atomic.Int64
	var wait sync.WaitGroup
	for range processes {
		s := lease.New(below, 200, time.Minute)
		_, idle := hook.Lease.(func(*lease.Store) (*func() time.Time, *time.Duration))(s)
		*idle = time.Hour
		l, err := core.NewLimiter(s, core.Policy{Name: "api", Limits: []core.Limit{core.PerHour(capacity)}})
		require.NoError(t, err)
		for range 4 {
			wait.Go(func() {
				for range capacity / processes {
					res, err := l.Allow(t.Context(), "k")
					if !assert.NoError(t, err) {
						return
					}
					if res.Allowed {
						admitted.Add(1)
					}
					if res.Source == core.FromLease {
						leased.Add(1)
					}
				}
				s.GiveBack()
			})
		}
	}
	wait.Wait()
	assert.Positive(t, leased.Load(), "premise: a busy key is decided on leases")
	assert.LessOrEqual(t, admitted.Load(), int64(capacity), "leases admit nothing beyond the limit")
	l, err := core.NewLimiter(below, core.Policy{Name: "api", Limits: []core.Limit{core.PerHour(capacity)}})
	require.NoError(t, err)
	res, err := l.Peek(t.Context(), "k")
	require.NoError(t, err)
	assert.Equal(t, int64(capacity), admitted.Load()+res.Remaining, "what was not used has come back")
}

// counting is a store that decides no requests together, and counts the refunds.
type counting struct {
	core.Store

	refunds atomic.Int64
}

func (s *counting) Do(ctx context.Context, r store.Request) (store.Answer, error) {
	if r.Action == bucket.Refund {
		s.refunds.Add(1)
	}
	return s.Store.Do(ctx, r)
}

// A store settles a lease again if a call with its end failed. The holds of slots are not its own.
func TestOnlyLeasesAreSettledAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		below := &counting{Store: core.NewMemoryStore()}
		l, err := core.NewLimiter(lease.New(below, 200, time.Minute), core.Policy{Name: "api", Limits: []core.Limit{core.InFlight(5)}})
		require.NoError(t, err)
		for range 3 {
			j, err := core.AllowTogether(t.Context(), core.Charge{Limiter: l, Key: "k", Cost: 2}, core.Charge{Limiter: l, Key: "k", Cost: 3})
			require.NoError(t, err)
			assert.True(t, j.Allowed)
			require.NoError(t, j.Release(t.Context()))
		}
		synctest.Wait()
		assert.Zero(t, below.refunds.Load(), "the store below decides nothing together, so each share is a call, and none is a refund")
	})
}
