package migration

import (
	"context"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/tokenbucket-go/ratelimit/core"
	"github.com/tokenbucket-go/ratelimit/core/redisstore"
)

// RedisRateAfter limits users by the rate of their plan.
type RedisRateAfter struct{ limiter *core.Limiter }

// NewRedisRateAfter returns a RedisRateAfter on a Redis client. Call it once, not for each request.
func NewRedisRateAfter(rdb *redis.Client) (*RedisRateAfter, error) {
	limiter, err := core.NewLimiter(redisstore.New(rdb), core.Policy{
		Name:      "users",
		Limits:    []core.Limit{core.PerMinute(60)}, // for users without a plan
		OnFailure: core.FailClosed,
	})
	if err != nil {
		return nil, err
	}
	return &RedisRateAfter{limiter}, nil
}

// Take takes n requests of a user whose plan allows perMinute. If they are denied, it returns how long to wait. It returns
// core.ErrCapacity if no wait is long enough.
func (l *RedisRateAfter) Take(ctx context.Context, user string, perMinute, n int) (wait time.Duration, err error) {
	limiter, err := l.limiter.WithLimits(core.PerMinute(perMinute))
	if err != nil {
		return 0, err
	}
	res, err := limiter.AllowN(ctx, core.JoinKey("user", user), int64(n))
	if err != nil {
		return 0, err
	}
	if res.RetryAfter == core.Never {
		return 0, core.ErrCapacity
	}
	return res.RetryAfter, nil // 0 if allowed
}
