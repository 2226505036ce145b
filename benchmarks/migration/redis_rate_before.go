package migration

import (
	"context"
	"time"

	"github.com/go-redis/redis_rate/v10"
	"github.com/redis/go-redis/v9"
)

// RedisRateBefore limits users by the rate of their plan.
type RedisRateBefore struct{ limiter *redis_rate.Limiter }

// NewRedisRateBefore returns a RedisRateBefore on a Redis client.
func NewRedisRateBefore(rdb *redis.Client) *RedisRateBefore {
	return &RedisRateBefore{redis_rate.NewLimiter(rdb)}
}

// Take takes n requests of a user whose plan allows perMinute. If they are denied, it returns how long to wait.
func (l *RedisRateBefore) Take(ctx context.Context, user string, perMinute, n int) (wait time.Duration, err error) {
	res, err := l.limiter.AllowN(ctx, "user:"+user, redis_rate.PerMinute(perMinute), n)
	if err != nil {
		return 0, err
	}
	if res.Allowed == 0 {
		return res.RetryAfter, nil
	}
	return 0, nil
}
