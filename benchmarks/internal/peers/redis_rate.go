package peers

import (
	"context"

	"github.com/go-redis/redis_rate/v10"
)

// RedisRate is the name of go-redis/redis_rate among the contenders.
const RedisRate = "redis_rate"

func newRedisRate(addr string, db int, l Limit) (*Redis, error) {
	c, closeClient := client(addr, db)
	limiter := redis_rate.NewLimiter(c)
	limit := redis_rate.Limit{Rate: l.Rate, Burst: l.Burst, Period: l.Per}
	return &Redis{
		Name: RedisRate, Algorithm: "GCRA", KeysPerKey: 1, Scripted: true, close: closeClient,
		Decide: func(ctx context.Context, key string) (bool, error) {
			res, err := limiter.Allow(ctx, key, limit)
			return err == nil && res.Allowed > 0, err
		},
	}, nil
}
