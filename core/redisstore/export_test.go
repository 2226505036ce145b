package redisstore

import "time"

// KeepLeases has s hold its leases for longer than any test takes, however little they are used.
func (s *Store) KeepLeases() { s.leases.idle = time.Hour }

// GiveBack ends all leases of s, as if they were idle, and returns when Redis has their tokens.
func (s *Store) GiveBack() {
	for i := range s.leases.shards {
		sh := &s.leases.shards[i]
		sh.mu.Lock()
		ended := make([]*watchedKey, 0, len(sh.keys))
		for _, k := range sh.keys {
			copied := *k
			copied.refund.Ends = k.end()
			ended = append(ended, &copied)
		}
		sh.mu.Unlock()
		for _, k := range ended {
			s.leases.giveBack(k.refund)
		}
	}
}

// StepBack is for an injected clock that is about to step back. A process's own clock does not, so its leases go on as
// before.
func (s *Store) StepBack(by time.Duration) {
	for i := range s.leases.shards {
		sh := &s.leases.shards[i]
		sh.mu.Lock()
		for _, k := range sh.keys {
			if k.lease == nil {
				continue
			}
			if k.lease.asked = k.lease.asked.Add(-by); k.lease.over(s.now().Add(-by)) {
				k.end()
			}
		}
		sh.mu.Unlock()
	}
}
