package peers

import (
	"context"

	"github.com/go-redis/redis_rate/v10"
)

// RedisRate is the name of go-redis/redis_rate among the contenders.
const RedisRate = "redis_rate"

func newRedisRate(to Connection, l Limit) (*Redis, error) {
	c, closeClient := client(to)
	return &Redis{
		Name: RedisRate, KeysPerKey: 1, Scripted: true, close: closeClient,
		Decide: redisRateDecide(redis_rate.NewLimiter(c), l),
	}, nil
}

func newPipedRedisRate(to Connection, l Limit) (*Redis, error) {
	p, closeClient, err := piped(to)
	if err != nil {
		return nil, err
	}
	return &Redis{
		Name: RedisRate + Piped, KeysPerKey: 1, Scripted: true, close: closeClient,
		Decide: redisRateDecide(redis_rate.NewLimiter(p), l),
	}, nil
}

func redisRateDecide(limiter *redis_rate.Limiter, l Limit) Decide {
	limit := redis_rate.Limit{Rate: l.Rate, Burst: l.Burst, Period: l.Per}
	return func(ctx context.Context, key string) (bool, error) {
		res, err := limiter.Allow(ctx, key, limit)
		return err == nil && res.Allowed > 0, err
	}
}
