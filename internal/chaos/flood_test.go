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

// However many keys an attacker invents, memory is bounded with the keys.
func TestMemoryOfAFlood(t *testing.T) {
	const bound = 100_000
	flood := 2 * bound
	if *reportFile != "" {
		flood = 10_000_000
	}
	store := core.NewMemoryStore(core.WithMaxKeys(bound))
	l := core.Must(core.NewLimiter(store, core.Policy{Name: "flood", Limits: []core.Limit{core.PerDay(1)}}))
	for i := range flood {
		_, _ = l.Allow(context.Background(), "attacker-"+strconv.Itoa(i))
		if i%(flood/10) == 0 {
			require.LessOrEqual(t, store.Len(), bound, "the bound holds at any time")
		}
	}
	full := heap()
	runtime.KeepAlive(l) // until here, with its store
	taken := full - min(heap(), full)
	assert.Less(t, float64(taken)/bound, 1024.0, "bytes a key")
	reportMemory(fmt.Sprintf("MemoryStore, %d made-up keys through a bound of %d, one limit", flood, bound), taken, bound)
}

// heap returns how many bytes are allocated after a garbage collection.
func heap() uint64 {
	for range 3 { // finalizers and pools take more than one collection
		runtime.GC()
	}
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
