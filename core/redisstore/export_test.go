package redisstore

import (
	"context"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/tokenbucket-go/ratelimit/core"
	"github.com/tokenbucket-go/ratelimit/core/store"
	"github.com/tokenbucket-go/ratelimit/internal/redistest"
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

// Leases is the store that WithLease puts around another one.
type Leases = leases

// LeasesAround returns leases of at most so many tokens around any store.
func LeasesAround(next store.JointStore, most int64) *Leases { return leasesAround(next, most) }

func leasesAround(next store.JointStore, most int64) *leases {
	return &leases{next: next, config: configOf(next), most: most}
}

// DenyCacheAround returns a deny cache around any store, and how many denials it
// has repeated.
func DenyCacheAround(next store.JointStore, horizon time.Duration) (cache store.JointStore, repeated func() int64) {
	c := denyCacheAround(next, horizon)
	return c, c.Repeated
}

func denyCacheAround(next store.JointStore, horizon time.Duration) *denyCache {
	return &denyCache{next: next, config: configOf(next), horizon: horizon}
}

// configOf returns the configuration of a store, or that of one without any.
func configOf(s store.Store) *store.Config {
	if c, ok := s.(store.Configured); ok {
		return c.Config()
	}
	return &store.Config{}
}

// Config returns the configuration of the store that the leases are around.
func (s *leases) Config() *store.Config { return s.config }

// Config returns the configuration of the store that the cache is around.
func (s *denyCache) Config() *store.Config { return s.config }

// Hook has a client call Do in place of sending a command whose name begins so.
// send sends it.
type Hook struct {
	redistest.Hook

	Of string
	Do func(cmd redis.Cmder, send func() error) error
}

// ProcessHook calls Do, whose error is that of the command.
func (h Hook) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error {
		send := func() error { return next(ctx, cmd) }
		if !strings.HasPrefix(cmd.Name(), h.Of) {
			return send()
		}
		err := h.Do(cmd, send)
		if err != nil {
			cmd.SetErr(err)
		}
		return err
	}
}
