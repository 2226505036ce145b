package lease

import (
	"context"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/tokenbucket-go/ratelimit/core"
	"github.com/tokenbucket-go/ratelimit/core/internal/bucket"
	"github.com/tokenbucket-go/ratelimit/core/store"
)

// slow takes a millisecond to answer, and counts the leases that it was asked
// for.
type slow struct {
	store.Store

	mu     sync.Mutex
	leases []int64 // their sizes
}

func (s *slow) Do(ctx context.Context, r store.Request) (store.Answer, error) {
	if r.Action == bucket.Lease {
		s.mu.Lock()
		s.leases = append(s.leases, r.More)
		s.mu.Unlock()
	}
	time.Sleep(time.Millisecond)
	return s.Store.Do(ctx, r)
}

// crowd has so many goroutines take a token each, time after time, for 100 ms.
func crowd(t *testing.T, most int64, goroutines int) (leases []int64, decisions int) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		below := &slow{Store: core.NewMemoryStore()}
		s := New(below, most, time.Minute)
		l, err := core.NewLimiter(s, core.Policy{Name: "api", Limits: []core.Limit{core.PerHour(1_000_000)}})
		require.NoError(t, err)
		var wait sync.WaitGroup
		var mu sync.Mutex
		for end := time.Now().Add(100 * time.Millisecond); goroutines > 0; goroutines-- {
			wait.Go(func() {
				for time.Now().Before(end) {
					if _, err := l.Allow(t.Context(), "k"); !assert.NoError(t, err) {
						return
					}
					mu.Lock()
					decisions++
					mu.Unlock()
					time.Sleep(time.Millisecond)
				}
			})
		}
		wait.Wait()
		time.Sleep(time.Minute) // idle leases go back
		leases = below.leases
	})
	return leases, decisions
}

func TestLeaseSmallerThanTheCrowdIsNotTakenAgain(t *testing.T) {
	leases, decisions := crowd(t, 100, 500)
	assert.Less(t, len(leases), 10, "500 callers at once share calls instead of waiting for leases of 100: %v", leases)
	assert.Greater(t, decisions, 50*400, "so their decisions take a round trip")
}

func TestLeaseGrowsToTheCrowdAtOnce(t *testing.T) {
	leases, _ := crowd(t, 100_000, 500)
	require.Greater(t, len(leases), 1)
	assert.Less(t, leases[0], int64(10), "premise: the first is small")
	assert.GreaterOrEqual(t, leases[1], int64(499), "the next has room for all who waited: %v", leases)
}

// panicking panics when it is asked for a lease.
type panicking struct{ store.Store }

func (s panicking) Do(ctx context.Context, r store.Request) (store.Answer, error) {
	if r.Action == bucket.Lease {
		panic("nil map")
	}
	return s.Store.Do(ctx, r)
}

// Leases are renewed in a goroutine of their own, so a panic there must not end
// the process.
func TestPanicOfARenewalIsAnError(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := New(panicking{core.NewMemoryStore()}, 100, time.Minute)
		l, err := core.NewLimiter(s, core.Policy{Name: "api", Limits: []core.Limit{core.PerHour(1_000_000)}, OnFailure: core.FailClosed})
		require.NoError(t, err)
		failed := 0
		for range 5 {
			if _, err := l.Allow(t.Context(), "k"); err != nil {
				require.ErrorContains(t, err, "the store panicked: nil map")
				failed++
			}
		}
		assert.Positive(t, failed, "premise: leases were asked for")
	})
}
