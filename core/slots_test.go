package core_test

import (
	"context"
	"sync"
	"testing"
	"testing/synctest"
	"time"
	"unsafe"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/tokenbucket-go/ratelimit/core"
	"github.com/tokenbucket-go/ratelimit/core/internal/bucket"
	"github.com/tokenbucket-go/ratelimit/core/store"
)

// actions is a store that counts what it is asked of a key.
type actions struct {
	*core.MemoryStore

	mu     sync.Mutex
	counts map[bucket.Action]int
}

func (s *actions) Do(ctx context.Context, r store.Request) (store.Answer, error) {
	s.mu.Lock()
	if r.Key() == "k" {
		s.counts[r.Action]++
	}
	s.mu.Unlock()
	return s.MemoryStore.Do(ctx, r)
}

func (s *actions) count(a bucket.Action) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.counts[a]
}

// Charges of one limiter and key are one decision: its slots are prolonged once,
// until middleware ends that, also for an app that holds them then.
func TestSlotsOfOneDecisionAreKeptOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		buffer := []byte("k")
		key := unsafe.String(&buffer[0], 1) // of a framework that reuses its memory
		s := &actions{MemoryStore: core.NewMemoryStore(), counts: map[bucket.Action]int{}}
		l := core.Must(core.NewLimiter(s, core.Policy{Name: "api", Limits: []core.Limit{core.InFlight(5)}}))
		res, err := core.AllowTogether(t.Context(), core.Charge{Limiter: l, Key: key}, core.Charge{Limiter: l, Key: key})
		require.NoError(t, err)
		release, kept := res.Keep()
		require.True(t, kept)
		_, kept = res.Parts[1].Keep()
		assert.False(t, kept, "kept already")
		buffer[0] = '_'
		time.Sleep(10 * time.Minute)
		synctest.Wait()
		buffer[0] = 'k'
		assert.InDelta(t, 30, s.count(bucket.Extend), 2, "three times in a minute")
		require.NoError(t, res.Parts[0].Hold(t.Context()))
		release()
		holds := s.count(bucket.Extend)
		time.Sleep(10 * time.Minute)
		synctest.Wait()
		assert.Equal(t, holds, s.count(bucket.Extend))
		assert.Zero(t, s.count(bucket.Charge), "the app releases")
	})
}
