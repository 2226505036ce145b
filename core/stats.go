package core

import (
	"math/bits"
	"sync/atomic"
	"time"

	"github.com/sony/gobreaker/v2"
)

// BatchSizes is the length of [RedisStats.Batches], a histogram of decisions per call.
const BatchSizes = 10

// RedisStats is what a RedisStore did since it was made. All but Breaker only grow.
type RedisStats struct {
	Breaker BreakerState  // now
	Opened  int64         // how often the breaker opened
	Away    time.Duration // for how long it was not closed, all together

	Calls     int64             // script calls and pipelines that were sent
	Decisions int64             // that they carried
	Batches   [BatchSizes]int64 // calls by decisions carried: 1, 2, up to 4, up to 8 … up to 512

	Denied int64 // decisions by the deny cache
	Leased int64 // decisions on leased tokens
}

// BreakerState is what a RedisStore's circuit breaker does.
type BreakerState uint8

const (
	// BreakerClosed lets all decisions ask Redis.
	BreakerClosed BreakerState = iota
	// BreakerHalfOpen lets one try whether Redis is back.
	BreakerHalfOpen
	// BreakerOpen lets none.
	BreakerOpen
)

// String names the state in lower case, as metrics do.
func (s BreakerState) String() string {
	switch s {
	case BreakerClosed:
		return "closed"
	case BreakerHalfOpen:
		return "half-open"
	case BreakerOpen:
		return "open"
	}
	return "BreakerState(" + itoa(int64(s)) + ")"
}

// Stats tells what the store did. It is safe for concurrent use and makes no call.
func (s *RedisStore) Stats() RedisStats {
	stats := RedisStats{
		Opened: s.breaker.opened.Load(), Away: s.breaker.absence.total(), Calls: s.traffic.calls.Load(), Decisions: s.traffic.decisions.Load(),
	}
	switch s.breaker.circuit.State() {
	case gobreaker.StateOpen:
		stats.Breaker = BreakerOpen
	case gobreaker.StateHalfOpen:
		stats.Breaker = BreakerHalfOpen
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
	batches          [BatchSizes]atomic.Int64
}

// count counts a call for n decisions, from 1 to maxBatch.
func (t *traffic) count(n int) {
	t.calls.Add(1)
	t.decisions.Add(int64(n))
	t.batches[min(bits.Len(uint(n-1)), BatchSizes-1)].Add(1)
}
