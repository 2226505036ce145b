package core_test

import (
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
	"github.com/tokenbucket-go/ratelimit/internal/limittest"
)

// Charges of one limiter and key are one decision: its slots are prolonged once,
// until middleware ends that, also for an app that holds them then.
func TestSlotsOfOneDecisionAreKeptOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		buffer := []byte("k")
		key := unsafe.String(&buffer[0], 1) // of a framework that reuses its memory
		s, mu, counts := newAskedStore(), sync.Mutex{}, map[bucket.Action]int{}
		s.before = func(r store.Request) {
			mu.Lock()
			defer mu.Unlock()
			if r.Key() == "k" {
				counts[r.Action]++
			}
		}
		count := func(a bucket.Action) int {
			synctest.Wait()
			mu.Lock()
			defer mu.Unlock()
			return counts[a]
		}
		l := limittest.Limiter(t, s, "api", core.InFlight(5))
		res := core.Must(core.AllowTogether(t.Context(), core.Charge{Limiter: l, Key: key}, core.Charge{Limiter: l, Key: key}))
		release, kept := res.Keep()
		require.True(t, kept)
		_, kept = res.Parts[1].Keep()
		assert.False(t, kept, "kept already")
		buffer[0] = '_'
		time.Sleep(10 * time.Minute)
		synctest.Wait()
		buffer[0] = 'k'
		assert.InDelta(t, 30, count(bucket.Extend), 2, "three times in a minute")
		require.NoError(t, res.Parts[0].Hold(t.Context()))
		release()
		holds := count(bucket.Extend)
		time.Sleep(10 * time.Minute)
		assert.Equal(t, holds, count(bucket.Extend))
		assert.Zero(t, count(bucket.Charge), "the app releases")
	})
}

// Keep holds the slot of a job for longer than MaxHold, and release gives it
// back once, whatever the store.
func TestAKeptSlotIsHeldUntilRelease(t *testing.T) {
	for name, s := range map[string]core.Store{"memory": core.NewMemoryStore(), "another": newAskedStore()} {
		synctest.Test(t, func(t *testing.T) {
			l := limittest.Limiter(t, s, "jobs", core.InFlight(1).WithMaxHold(time.Minute))
			wantLeft := func(n int64, rule string) {
				t.Helper()
				synctest.Wait()
				wantLeft(t, l, name+": "+rule, n)
			}
			release, kept := mustAcquire(t, l).Keep()
			require.True(t, kept)
			for range 20 {
				time.Sleep(17 * time.Second)
				wantLeft(0, "the job has its slot")
			}
			release()
			wantLeft(1, "it is released")
			other := mustAcquire(t, l)
			release()
			wantLeft(0, "the slot of another job is not released")

			release, _ = other.Keep()
			require.NoError(t, other.Hold(t.Context()))
			release()
			wantLeft(0, "a job that has called Hold releases by itself")
			require.NoError(t, other.Release(t.Context()))
			wantLeft(1, "it has")
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
