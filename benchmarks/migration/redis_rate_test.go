package migration_test

import (
	"context"
	"testing"
	"time"

	"github.com/go-redis/redis_rate/v10"
	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/tokenbucket-go/ratelimit/benchmarks/migration"
	"github.com/tokenbucket-go/ratelimit/core"
	"github.com/tokenbucket-go/ratelimit/core/redisstore"
	"github.com/tokenbucket-go/ratelimit/internal/redistest"
)

type taker interface {
	Take(ctx context.Context, user string, perMinute, n int) (time.Duration, error)
}

func bothTakers(t *testing.T, rdb *redis.Client) map[string]taker {
	t.Helper()
	after, err := migration.NewRedisRateAfter(rdb)
	require.NoError(t, err)
	return map[string]taker{"before": migration.NewRedisRateBefore(rdb), "after": after}
}

func TestRedisRate(t *testing.T) {
	ctx := t.Context()
	for name, l := range bothTakers(t, redistest.Client(t)) {
		t.Run(name, func(t *testing.T) {
			user := redistest.Prefix()
			for range 5 {
				wait, err := l.Take(ctx, user, 10, 2)
				require.NoError(t, err)
				require.Zero(t, wait, "10 a minute are 5 pairs")
			}
			wait, err := l.Take(ctx, user, 10, 2)
			require.NoError(t, err)
			require.InDelta(t, 12*time.Second, wait, float64(3*time.Second), "2 of 10 a minute refill in 12 s")

			wait, err = l.Take(ctx, redistest.Prefix(), 20, 20)
			require.NoError(t, err)
			require.Zero(t, wait, "another plan has another limit")
		})
	}
}

// A cost above the burst can never be allowed. redis_rate returns a wait that does not help.
func TestRedisRateCostAboveTheBurst(t *testing.T) {
	ctx, both := t.Context(), bothTakers(t, redistest.Client(t))
	wait, err := both["before"].Take(ctx, redistest.Prefix(), 10, 11)
	require.NoError(t, err)
	require.InDelta(t, 6*time.Second, wait, float64(time.Second))
	_, err = both["after"].Take(ctx, redistest.Prefix(), 10, 11)
	require.ErrorIs(t, err, core.ErrCapacity)
}

// What was used under a larger limit counts for a smaller one on the same key, unless that has a name of its own.
func TestRedisRateSmallerLimitOnTheSameKey(t *testing.T) {
	ctx, both, user := t.Context(), bothTakers(t, redistest.Client(t)), redistest.Prefix()
	for _, l := range both {
		wait, err := l.Take(ctx, user, 1000, 500)
		require.NoError(t, err)
		require.Zero(t, wait)
	}
	wait, err := both["before"].Take(ctx, user, 10, 1)
	require.NoError(t, err)
	require.Zero(t, wait, "redis_rate counts time, of which 500 of 1,000 a minute are 30 s")
	wait, err = both["after"].Take(ctx, user, 10, 1)
	require.NoError(t, err)
	require.NotZero(t, wait, "500 are used")
	wait, err = both["after"].Take(ctx, user, 1000, 400)
	require.NoError(t, err)
	require.Zero(t, wait, "and the larger limit has the rest")

	limiter := core.Must(core.NewLimiter(redisstore.New(redistest.Client(t), redisstore.WithPrefix(redistest.Prefix())), core.Policy{
		Name: "users", Limits: []core.Limit{core.PerMinute(1000)},
	}))
	writes := core.Must(limiter.WithLimits(core.PerMinute(10).WithName("writes")))
	for _, l := range []*core.Limiter{limiter, writes, limiter} {
		res, err := l.Allow(ctx, "user")
		require.NoError(t, err)
		require.True(t, res.Allowed)
		if l == limiter {
			require.GreaterOrEqual(t, res.Remaining, int64(998), "a limit with another name has a bucket of its own")
		}
	}
}

func TestRedisRateErrorsWithoutRedis(t *testing.T) {
	rdb := redis.NewClient(&redis.Options{Addr: redistest.Addr(t), MaxRetries: -1})
	both := bothTakers(t, rdb)
	require.NoError(t, rdb.Close())
	_, err := both["before"].Take(t.Context(), "u", 10, 1)
	require.Error(t, err)
	_, err = both["after"].Take(t.Context(), "u", 10, 1)
	require.ErrorIs(t, err, core.ErrUnavailable)
}

func TestRedisRateAtMost(t *testing.T) {
	ctx, rdb, key := t.Context(), redistest.Client(t), redistest.Prefix()
	before, err := redis_rate.NewLimiter(rdb).AllowAtMost(ctx, key, redis_rate.PerMinute(10), 15)
	require.NoError(t, err)
	require.Equal(t, 10, before.Allowed)
	require.EqualValues(t, -1, before.RetryAfter)
	limiter := core.Must(core.NewLimiter(redisstore.New(rdb, redisstore.WithPrefix(key)), core.Policy{Name: "p", Limits: []core.Limit{core.PerMinute(10)}}))
	after, err := limiter.AllowAtMost(ctx, "k", 15)
	require.NoError(t, err)
	require.EqualValues(t, 10, after.Cost)
	require.Zero(t, after.RetryAfter)
}
