package redisstore

import "time"

// LongestTTL is how long a key may live that matters for a time: an eighth longer or two seconds, a second, and the
// rounding up to whole milliseconds.
func LongestTTL(matters time.Duration) time.Duration {
	return matters + max(matters/8, 2*time.Second) + time.Second + 2*time.Millisecond
}

// RedisKey returns the Redis key of a bucket in a store with this prefix.
func RedisKey(prefix, policy, key string) string { return redisKey(keyPrefix(prefix), policy, key) }

// KeepLeases makes s keep idle leases for longer than any test takes.
func (s *Store) KeepLeases() { s.leases.idle = time.Hour }

// GiveBack ends all leases of s as if they were idle. It returns when Redis has their tokens.
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

// StepBack must be called before an injected clock steps back by so much. The clock of a real process does not step back,
// so its leases must last as long as before.
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
