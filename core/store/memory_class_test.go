package store_test

import (
	"runtime"
	"strconv"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/tokenbucket-go/ratelimit/core"
	"github.com/tokenbucket-go/ratelimit/core/store"
)

// A store of many keys must stay small: one entry is 64 bytes, and keys of a
// policy share what they have in common. A key has more of its own only while it
// must: if it is long, or while it holds slots or has limits of its own.
func TestMemoryOfManyKeys(t *testing.T) {
	const keys = 50_000
	live := func() int64 {
		runtime.GC()
		runtime.GC()
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		return int64(m.HeapAlloc)
	}
	limits := []core.Limit{core.PerDay(10), core.InFlight(2)}
	for name, c := range map[string]struct {
		key  string // in front of a number
		use  func(l *core.Limiter, key string)
		most float64 // bytes of a key
	}{
		"short keys": {"user:", func(l *core.Limiter, key string) { core.Must(l.Allow(t.Context(), key)) }, 130},
		"long keys, of another plan and then the policy's": {"a user with a long name: ", func(l *core.Limiter, key string) {
			core.Must(core.Must(l.WithLimits(core.PerDay(20).WithName("api"))).Allow(t.Context(), key))
			core.Must(l.Allow(t.Context(), key))
		}, 300},
		"slots that are released": {"user:", func(l *core.Limiter, key string) {
			res := core.Must(l.Allow(t.Context(), key))
			require.NoError(t, res.Release(t.Context()))
		}, 130},
		"another plan's limits, and then the policy's": {"user:", func(l *core.Limiter, key string) {
			core.Must(core.Must(l.WithLimits(core.PerDay(20).WithName("api"))).Allow(t.Context(), key))
			require.NoError(t, l.Reset(t.Context(), key))
			core.Must(l.Allow(t.Context(), key))
		}, 130},
	} {
		names := make([]string, keys)
		for i := range names {
			names[i] = c.key + strconv.Itoa(i)
		}
		of := limits[:1]
		if name == "slots that are released" {
			of = limits[1:]
		}
		l := core.Must(core.NewLimiter(store.NewMemory(), core.Policy{Name: "api", Limits: of}))
		before := live()
		for _, key := range names {
			c.use(l, key)
		}
		used := float64(live()-before) / keys
		assert.LessOrEqual(t, used, c.most, "bytes that a key takes: %s", name)
		runtime.KeepAlive(l)
		runtime.KeepAlive(names)
	}
}
