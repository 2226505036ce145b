package chaos_test

import (
	"context"
	"fmt"
	"runtime"
	"strconv"
	"sync"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/tokenbucket-go/ratelimit/core"
	"github.com/tokenbucket-go/ratelimit/core/redisstore"
	"github.com/tokenbucket-go/ratelimit/internal/redistest"
)

// An attacker invents keys. Meanwhile honest clients, who have used up their
// tokens, ask again and again.
func TestFloodOfKeysIsBoundedAndDropsNoKeyInUse(t *testing.T) {
	const bound, honest = 100_000, 1000
	flood := 500_000
	if *reportFile != "" {
		flood = 10_000_000
	}
	store := core.NewMemoryStore(core.WithMaxKeys(bound))
	l := core.Must(core.NewLimiter(store, core.Policy{Name: "flood", Limits: []core.Limit{core.PerDay(1)}}))
	ctx := context.Background()
	names := keyNames(honest)
	for _, name := range names {
		res, err := l.Allow(ctx, name)
		require.NoError(t, err)
		require.True(t, res.Allowed)
	}
	before := heap()
	var peak uint64
	for i := range flood {
		_, _ = l.Allow(ctx, "attacker-"+strconv.Itoa(i))
		if i%20 == 0 {
			res, _ := l.Allow(ctx, names[i/20%honest])
			require.False(t, res.Allowed, "a key in use keeps its state: %d keys after its last use it is denied still", 20*honest)
		}
		if i%(flood/10) == 0 {
			require.LessOrEqual(t, store.Len(), bound, "the bound holds at any time")
			peak = max(peak, heap())
		}
	}
	perKey := float64(peak-min(before, peak)) / bound
	t.Logf("%d keys through a bound of %d: %.0f bytes a key at the peak", flood, bound, perKey)
	assert.Less(t, perKey, 1024.0, "memory is bounded with the keys")
	reportMemory(fmt.Sprintf("MemoryStore, %d made-up keys through a bound of %d, one limit", flood, bound), peak-min(before, peak), bound)
	runtime.KeepAlive(store)
}

// heap returns how many bytes are allocated after a garbage collection.
func heap() uint64 {
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.HeapAlloc
}

// It makes a million keys, so it runs only for the report.
func TestMemoryOfKeysInRedis(t *testing.T) {
	if *reportFile == "" {
		t.Skip("measures for -report only")
	}
	const million = 1_000_000
	for _, limits := range [][]core.Limit{
		{core.PerDay(100)},
		{core.PerSecond(10), core.PerMinute(100), core.PerDay(1000)},
	} {
		server := redistest.Start(t)
		client := server.Client(t)
		l := core.Must(core.NewLimiter(redisstore.New(client, patient), core.Policy{Name: "api", Limits: limits, OnFailure: core.FailClosed}))
		before := usedMemory(t, server)
		var workers sync.WaitGroup
		for w := range 64 {
			workers.Go(func() {
				for i := w; i < million; i += 64 {
					if _, err := l.Allow(context.Background(), fmt.Sprintf("user:%07d", i)); err != nil {
						t.Error(err)
						return
					}
				}
			})
		}
		workers.Wait()
		n, err := client.DBSize(context.Background()).Result()
		require.NoError(t, err)
		if len(limits) == 1 {
			require.Equal(t, int64(million), n, "premise: a key each")
		}
		reportMemory(fmt.Sprintf("Redis, %d keys such as ratelimit:api:user:0000001, %d limits", n, len(limits)), usedMemory(t, server)-before, int(n))
		server.Kill()
	}
}

func usedMemory(t *testing.T, s *redistest.Server) (bytes uint64) {
	t.Helper()
	info, err := s.Client(t).InfoMap(context.Background(), "memory").Result()
	require.NoError(t, err)
	bytes, err = strconv.ParseUint(info["Memory"]["used_memory"], 10, 64)
	require.NoError(t, err)
	return bytes
}
