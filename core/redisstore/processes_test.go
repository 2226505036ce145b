package redisstore_test

import (
	"sync"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/tokenbucket-go/ratelimit/core"
	"github.com/tokenbucket-go/ratelimit/core/redisstore"
	"github.com/tokenbucket-go/ratelimit/internal/limittest"
	"github.com/tokenbucket-go/ratelimit/internal/redistest"
)

// Each process has a client and a store of its own.
func TestManyProcessesGetExactlyTheCapacity(t *testing.T) {
	prefix := redisstore.WithPrefix(redistest.Prefix())
	const processes, callers, calls, capacity = 4, 64, 5, 1000
	var granted [processes]atomic.Int64
	var all sync.WaitGroup
	start := make(chan struct{})
	for p := range processes {
		l := limittest.Limiter(t, redisstore.New(redistest.Client(t), prefix, longTimeout), "slow", core.PerDay(capacity))
		for range callers {
			all.Go(func() {
				<-start
				for range calls {
					res, err := l.Allow(t.Context(), "everyone")
					if !assert.NoError(t, err) {
						return
					}
					if res.Allowed {
						granted[p].Add(1)
					}
				}
			})
		}
	}
	close(start)
	all.Wait()
	total := int64(0)
	for p := range granted {
		assert.Positive(t, granted[p].Load(), "premise: all processes get tokens")
		total += granted[p].Load()
	}
	// 1,280 requests in well under the 86 s in which a token comes back.
	assert.EqualValues(t, capacity, total)
}
