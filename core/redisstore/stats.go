package redisstore

import (
	"math/bits"
	"sync/atomic"

	"github.com/sony/gobreaker/v2"

	"github.com/tokenbucket-go/ratelimit/core/storestats"
)

// Stats returns what the store did. It is safe for concurrent use and makes no call.
func (s *Store) Stats() storestats.Stats {
	stats := storestats.Stats{
		Opened: s.breaker.opened.Load(), Away: s.breaker.absence.total(), Calls: s.traffic.calls.Load(), Decisions: s.traffic.decisions.Load(),
	}
	switch s.breaker.circuit.State() {
	case gobreaker.StateOpen:
		stats.Breaker = storestats.BreakerOpen
	case gobreaker.StateHalfOpen:
		stats.Breaker = storestats.BreakerHalfOpen
	case gobreaker.StateClosed:
	}
	for i := range stats.Batches {
		stats.Batches[i] = s.traffic.batches[i].Load()
	}
	for i := range s.denials.shards {
		sh := &s.denials.shards[i]
		sh.mu.Lock()
		stats.Denied += sh.repeated
		sh.mu.Unlock()
	}
	for i := range s.leases.shards {
		sh := &s.leases.shards[i]
		sh.mu.Lock()
		stats.Leased += sh.spent
		sh.mu.Unlock()
	}
	return stats
}

// traffic counts calls.
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
