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

// Keep holds the slot of a job for longer than MaxHold, and release gives it
// back once, whatever the store.
func TestAKeptSlotIsHeldUntilRelease(t *testing.T) {
	for name, s := range map[string]core.Store{
		"memory": core.NewMemoryStore(), "another": &actions{MemoryStore: core.NewMemoryStore(), counts: map[bucket.Action]int{}},
	} {
		synctest.Test(t, func(t *testing.T) {
			l := core.Must(core.NewLimiter(s, core.Policy{Name: "jobs", Limits: []core.Limit{core.InFlight(1).WithMaxHold(time.Minute)}}))
			left := func() int64 {
				synctest.Wait()
				return core.Must(l.Peek(t.Context(), "k")).Remaining
			}
			res, err := l.Acquire(t.Context(), "k")
			require.NoError(t, err)
			release, kept := res.Keep()
			require.True(t, kept)
			for range 20 {
				time.Sleep(17 * time.Second)
				require.Zero(t, left(), "%s: the job has its slot", name)
			}
			release()
			require.EqualValues(t, 1, left(), "%s: it is released", name)
			other, err := l.Acquire(t.Context(), "k")
			require.NoError(t, err)
			release()
			require.Zero(t, left(), "%s: the slot of another job is not released", name)

			release, _ = other.Keep()
			require.NoError(t, other.Hold(t.Context()))
			release()
			require.Zero(t, left(), "%s: a job that has called Hold releases by itself", name)
			require.NoError(t, other.Release(t.Context()))
			require.EqualValues(t, 1, left(), name)
		})
	}
}

// A decision without slots has nothing to keep, and release is safe to call.
func TestKeepOfADecisionWithoutSlots(t *testing.T) {
	l := core.Must(core.NewLimiter(core.NewMemoryStore(), core.Policy{Name: "api", Limits: []core.Limit{core.PerDay(3)}}))
	allowed := core.Must(l.Allow(t.Context(), "k"))
	joint := core.Must(core.AllowTogether(t.Context(), core.Charge{Limiter: l, Key: "k"}))
	slots := core.Must(core.NewLimiter(core.NewMemoryStore(), core.Policy{Name: "slots", Limits: []core.Limit{core.InFlight(1)}}))
	core.Must(slots.Allow(t.Context(), "k"))
	denied := core.Must(slots.Allow(t.Context(), "k"))
	for name, res := range map[string]*core.Result{"tokens": &allowed, "joint": &joint, "denied": &denied, "no decision": {}} {
		release, kept := res.Keep()
		assert.False(t, kept, name)
		release()
	}
	assert.EqualValues(t, 1, core.Must(l.Peek(t.Context(), "k")).Remaining)
	assert.Zero(t, testing.AllocsPerRun(100, func() { allowed.Keep() }), "it costs nothing")
}
