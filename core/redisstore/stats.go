package redisstore

import (
	"github.com/sony/gobreaker/v2"

	"github.com/tokenbucket-go/ratelimit/core/storestats"
)

// Stats returns what the store did. It is safe for concurrent use and makes no call.
func (s *Store) Stats() storestats.Stats {
	stats := storestats.Stats{
		Opened: s.flights.breaker.opened.Load(), Away: s.flights.breaker.absence.total(), Calls: s.flights.traffic.calls.Load(), Decisions: s.flights.traffic.decisions.Load(),
	}
	switch s.flights.breaker.circuit.State() {
	case gobreaker.StateOpen:
		stats.Breaker = storestats.BreakerOpen
	case gobreaker.StateHalfOpen:
		stats.Breaker = storestats.BreakerHalfOpen
	case gobreaker.StateClosed:
	}
	for i := range stats.Batches {
		stats.Batches[i] = s.flights.traffic.batches[i].Load()
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
