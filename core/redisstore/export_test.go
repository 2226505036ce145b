package redisstore

import (
	"context"
	"time"

	"github.com/tokenbucket-go/ratelimit/core"
	"github.com/tokenbucket-go/ratelimit/core/internal/hook"
	"github.com/tokenbucket-go/ratelimit/core/lease"
)

// LongestTTL is how long a key may live that matters for a time: an eighth
// longer or two seconds, a second, and the rounding up to whole milliseconds.
func LongestTTL(matters time.Duration) time.Duration {
	return matters + max(matters/8, 2*time.Second) + time.Second + 2*time.Millisecond
}

// RedisKey returns the Redis key of a bucket in a store with this prefix.
func RedisKey(prefix, policy, key string) string { return redisKey(keyPrefix(prefix), policy, key) }

// leaseOf returns the clock of leases, and how long they stay.
var leaseOf = hook.Lease.(func(*lease.Store) (now *func() time.Time, idle *time.Duration))

// KeepLeases makes s keep idle leases for longer than any test takes.
func (s *Store) KeepLeases() {
	if s.leases != nil {
		_, idle := leaseOf(s.leases)
		*idle = time.Hour
	}
}

// GiveBack ends all leases of s as if they were idle. It returns when Redis has
// their tokens.
func (s *Store) GiveBack() {
	if s.leases != nil {
		s.leases.GiveBack()
	}
}

// StepBack must be called before an injected clock steps back by so much: it is
// the server's. The clock of a real process does not step back, so its leases
// must last as long as before.
func (s *Store) StepBack(by time.Duration) {
	if s.leases == nil {
		return
	}
	now, _ := leaseOf(s.leases)
	before := *now
	*now = func() time.Time { return before().Add(by) }
}

// FollowExceptions is Store.FollowExceptions with another interval.
func FollowExceptions(ctx context.Context, s *Store, interval time.Duration, limiters ...*core.Limiter) {
	s.followExceptions(ctx, interval, limiters)
}

// ExceptionsKey returns the Redis key of a policy's exceptions.
func ExceptionsKey(s *Store, policy string) string { return s.batches.exceptionsKey(policy) }

// HistoryKey returns the Redis key of a policy's history, or "".
func HistoryKey(s *Store, policy string) string { return s.batches.historyKey(policy) }

// SlotOf returns the Cluster slot of a key.
func SlotOf(key string) uint16 { return hashSlot(key) }
