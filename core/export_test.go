package core

import "time"

// KeepLeases has s hold its leases for longer than any test takes, however little they are used.
func (s *RedisStore) KeepLeases() { s.leases.idle = time.Hour }

// GiveBack ends all leases of s, as if they were idle, and returns when Redis has their tokens.
func (s *RedisStore) GiveBack() {
	for i := range s.leases.shards {
		sh := &s.leases.shards[i]
		sh.mu.Lock()
		var old []*Request
		for _, k := range sh.keys {
			old = append(old, k.end())
		}
		sh.mu.Unlock()
		for _, r := range old {
			<-s.settle(r)
		}
	}
}
