package migration

import (
	"context"
	"time"

	"github.com/go-redis/redis_rate/v10"
	"github.com/redis/go-redis/v9"

	"github.com/tokenbucket-go/ratelimit/core"
	"github.com/tokenbucket-go/ratelimit/core/redisstore"
)

// RedisRateBefore takes n requests of a user whose plan allows perHour. If
// they are denied, it returns how long to wait.
func RedisRateBefore(ctx context.Context, rdb *redis.Client, user string, perHour, n int) (time.Duration, error) {
	res, err := redis_rate.NewLimiter(rdb).AllowN(ctx, "user:"+user, redis_rate.PerHour(perHour), n)
	if err != nil || res.Allowed > 0 {
		return 0, err
	}
	return res.RetryAfter, nil
}

// NewRedisRateAfter makes the limiter for RedisRateAfter. Call it once, not for
// each request.
func NewRedisRateAfter(rdb *redis.Client) (*core.Limiter, error) {
	return core.NewLimiter(redisstore.New(rdb), core.Policy{
		Name:      "users",
		Limits:    []core.Limit{core.PerHour(600)}, // for users without a plan
		OnFailure: core.FailClosed,
	})
}

// RedisRateAfter takes n requests of a user whose plan allows perHour. If
// they are denied, it returns how long to wait: core.Never if no wait is long
// enough.
func RedisRateAfter(ctx context.Context, users *core.Limiter, user string, perHour, n int) (time.Duration, error) {
	limiter, err := users.WithLimits(core.PerHour(perHour))
	if err != nil {
		return 0, err
	}
	res, err := limiter.AllowN(ctx, core.JoinKey("user", user), int64(n))
	return res.RetryAfter, err // 0 if allowed
}
