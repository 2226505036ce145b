package migration

import (
	"context"
	"time"

	"github.com/go-redis/redis_rate/v10"
	"github.com/redis/go-redis/v9"

	"github.com/tokenbucket-go/ratelimit/core"
	"github.com/tokenbucket-go/ratelimit/core/redisstore"
)

// RedisRateBefore is go-redis/redis_rate.
func RedisRateBefore(ctx context.Context, rdb *redis.Client) (wait time.Duration, err error) {
	limiter := redis_rate.NewLimiter(rdb)

	res, err := limiter.AllowN(ctx, "project:123", redis_rate.PerSecond(10), 3)
	if err != nil {
		return 0, err
	}
	if res.Allowed == 0 {
		return res.RetryAfter, nil
	}
	return 0, nil
}

// RedisRateAfter is the same with this library.
func RedisRateAfter(ctx context.Context, rdb *redis.Client) (wait time.Duration, err error) {
	limiter, err := core.NewLimiter(redisstore.New(rdb), core.Policy{
		Name: "projects", Limits: []core.Limit{core.PerSecond(10)}, OnFailure: core.FailClosed,
	})
	if err != nil {
		return 0, err
	}

	res, err := limiter.AllowN(ctx, core.JoinKey("project", "123"), 3)
	if err != nil {
		return 0, err
	}
	if !res.Allowed {
		return res.RetryAfter, nil
	}
	return 0, nil
}
