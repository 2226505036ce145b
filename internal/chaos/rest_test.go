package chaos_test

import (
	"context"
	"runtime"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"

	"github.com/tokenbucket-go/ratelimit/core/redisstore"
	"github.com/tokenbucket-go/ratelimit/internal/redistest"
)

// TestStoreAtRest logs what a store keeps when nobody asks any more. Run it
// alone: what other tests leave behind goes meanwhile.
func TestStoreAtRest(t *testing.T) {
	if *reportFile == "" {
		t.Skip("measures for -report only")
	}
	const keys, callers = 10_000, 512
	names := keyNames(keys)
	server := redistest.Start(t)
	heap := func() uint64 {
		var m runtime.MemStats
		for range 3 {
			runtime.GC()
		}
		runtime.ReadMemStats(&m)
		return m.HeapAlloc
	}
	goroutines, bytes := runtime.NumGoroutine(), heap()
	c := openClient(t, server.Addr)
	l, _ := measuredLimiters(redisstore.New(c))
	var asking sync.WaitGroup
	for caller := range callers {
		asking.Go(func() {
			for round := range 10 * keys / callers {
				_, err := l.Allow(context.Background(), names[(caller+round*callers)%keys])
				assert.NoError(t, err)
			}
		})
	}
	asking.Wait()
	time.Sleep(5 * time.Second)
	more := runtime.NumGoroutine() - goroutines
	grown := max(heap(), bytes) - bytes
	t.Logf("at rest: %d goroutines, %d bytes, %d idle connections", more, grown, c.PoolStats().IdleConns)
	assert.LessOrEqual(t, more, 0, "a store at rest needs no goroutine")
	runtime.KeepAlive(names)
	runtime.KeepAlive(l)
}
