package core

import "time"

// KeepLeases has s hold its leases for longer than any test takes, however little they are used.
func (s *RedisStore) KeepLeases() { s.leases.idle = time.Hour }

// GiveBack ends all leases of s, as if they were idle, and returns when Redis has their tokens.
func (s *RedisStore) GiveBack() {
	for i := range s.leases.shards {
		sh := &s.leases.shards[i]
		unused := make(map[entryKey]ending)
		plans := make(map[entryKey]*plan)
		sh.mu.Lock()
		for key, k := range sh.keys {
			unused[key], plans[key] = k.end(), k.plan
		}
		sh.mu.Unlock()
		for key, u := range unused {
			s.giveBack(key, plans[key], 0, u)
		}
	}
}

// StepBack is for an injected clock that is about to step back: a process's own clock does not, so its leases go on
// as before.
func (s *RedisStore) StepBack(by time.Duration) {
	for i := range s.leases.shards {
		sh := &s.leases.shards[i]
		sh.mu.Lock()
		for _, k := range sh.keys {
			if k.held == nil {
				continue
			}
			if k.held.asked = k.held.asked.Add(-by); k.held.over(s.now().Add(-by)) {
				k.end()
			}
		}
		sh.mu.Unlock()
	}
}
