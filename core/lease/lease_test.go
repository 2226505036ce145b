package lease_test

import (
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/tokenbucket-go/ratelimit/core"
	"github.com/tokenbucket-go/ratelimit/core/lease"
)

func TestLeasesOfSeveralProcessesAdmitTheCapacity(t *testing.T) {
	now := time.Unix(1_000_000, 0)
	below := core.NewMemoryStore(core.WithClock(func() time.Time { return now }))
	const capacity, processes = 5000, 4
	var admitted, leased atomic.Int64
	var wait sync.WaitGroup
	for range processes {
		s := lease.New(below, 200, time.Minute)
		s.Idle = time.Hour
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
