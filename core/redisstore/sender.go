package redisstore

import (
	"math/bits"
	"sync/atomic"
	"time"

	"github.com/tokenbucket-go/ratelimit/core/storestats"
)

// sender is what the nodes of a store share.
type sender struct {
	server  *server
	timeout time.Duration
	denials *denyCache // that what is sent may end
	calls   callPool
	traffic traffic
}

// traffic counts what was sent.
type traffic struct {
	calls, decisions atomic.Int64
	batches          [storestats.BatchSizes]atomic.Int64
}

// count counts a call for n decisions, from 1 to maxBatch.
func (t *traffic) count(n int) {
	t.calls.Add(1)
	t.decisions.Add(int64(n))
	t.batches[min(bits.Len(uint(n-1)), storestats.BatchSizes-1)].Add(1)
}
