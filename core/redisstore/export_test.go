package redisstore

import (
	"context"
	"time"

	"github.com/tokenbucket-go/ratelimit/core"
)

// LongestTTL is how long a key may live that matters for a time: an eighth and
// 3 s longer, and the rounding up to whole milliseconds.
func LongestTTL(matters time.Duration) time.Duration {
	return matters + matters/8 + 3*time.Second + 2*time.Millisecond
}

// HoldsKey returns the Redis key of the holds of a bucket.
func HoldsKey(prefix, key string) string { return holdsKey(keyPrefix(prefix), key) }

// RedisKey returns the Redis key of a bucket in a store with this prefix.
func RedisKey(prefix, policy, key string) string { return redisKey(keyPrefix(prefix), policy, key) }

// GiveBack ends all leases of s. It returns when Redis has their tokens.
func (s *Store) GiveBack() {
	if s.leases != nil {
		s.leases.GiveBack()
	}
}

// FollowExceptions is Store.FollowExceptions with another interval.
func FollowExceptions(ctx context.Context, s *Store, interval time.Duration, limiters ...*core.Limiter) {
	s.followExceptions(ctx, interval, limiters)
}

// ExceptionsKey returns the Redis key of a policy's exceptions.
func ExceptionsKey(s *Store, policy string) string { return s.batches.exceptionsKey(policy) }
