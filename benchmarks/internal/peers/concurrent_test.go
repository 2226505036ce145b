package peers

import (
	"context"
	"os"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// TestManyAtOnceOnGinRateLimit is what docs/comparison.md says of gin-rate-limit: of 400 requests at once on a limit of 100 exactly 100
// pass. It needs a Redis at REDIS_ADDR.
func TestManyAtOnceOnGinRateLimit(t *testing.T) {
	address := os.Getenv("REDIS_ADDR")
	if address == "" {
		t.Skip("needs a Redis at REDIS_ADDR")
	}
	peer, err := newGinRateLimit(Connection{Addr: address, Pool: 50}, Limit{Burst: 100})
	require.NoError(t, err)
	defer peer.close()
	var allowed atomic.Int64
	var group sync.WaitGroup
	key := "many-at-once-" + strconv.FormatInt(time.Now().UnixNano(), 36)
	for range 400 {
		group.Go(func() {
			if ok, err := peer.Decide(context.Background(), key); err != nil {
				t.Error(err)
			} else if ok {
				allowed.Add(1)
			}
		})
	}
	group.Wait()
	require.EqualValues(t, 100, allowed.Load())
}
