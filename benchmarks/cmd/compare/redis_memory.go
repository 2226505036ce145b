package main

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/tokenbucket-go/ratelimit/benchmarks/internal/peers"
	"github.com/tokenbucket-go/ratelimit/benchmarks/internal/redisinfo"
	"github.com/tokenbucket-go/ratelimit/benchmarks/internal/report"
	"github.com/tokenbucket-go/ratelimit/core"
	"github.com/tokenbucket-go/ratelimit/core/redisstore"
)

// redisMemory measures what one client takes in Redis besides the names of its keys.
func (s *suite) redisMemory(ctx context.Context) error {
	usual := peers.Limit{Burst: 100, Rate: 100, Per: time.Minute}
	var each []string
	var ours, ours3, theirs float64
	err := s.onRedis(ctx, usual, func(all []*peers.Redis) error {
		for _, r := range all {
			one, keys, err := s.overhead(ctx, r.DB, r.Decide)
			if err != nil {
				return fmt.Errorf("%s: %w", r.Name, err)
			}
			text := fmt.Sprintf("%s %.0f", r.Name, one)
			if keys > 1 {
				text += fmt.Sprintf(" in %d keys", keys)
			}
			each = append(each, text)
			switch r.Name {
			case peers.Library:
				if ours3, err = s.threeLimits(ctx, r.DB); err != nil {
					return err
				}
				ours = one
			case peers.RedisRate:
				theirs = one
			}
		}
		return nil
	}, onTheirOwn...)
	if err != nil {
		return err
	}
	s.target(report.AtMost("Redis memory per key, one limit", peers.RedisRate, ours/theirs, 1))
	s.target(report.UpTo("Redis memory per key, three limits, beyond redis_rate's with one", "B", ours3-theirs, 64))
	s.section("Redis: memory of one client",
		fmt.Sprintf("Bytes of one limit (MEMORY USAGE less the name): %s.\nThree limits of %s take %.0f bytes in one key; peers take three times as much, and three calls.",
			strings.Join(each, ", "), peers.Library, ours3), nil)
	return nil
}

// overhead is the mean of what one client takes, and the number of its Redis keys. The allocator rounds
// up to steps of 16 bytes, and names of 32 bytes and more have a longer header, so the mean is over the
// same 32 lengths of names for all.
func (s *suite) overhead(ctx context.Context, db int, decide peers.Decide) (mean float64, keys int64, err error) {
	const shortest, lengths = 40, 32
	first, err := s.used(ctx, db, decide, "u")
	if err != nil {
		return 0, 0, err
	}
	around := int(first.Names/first.Keys) - len("u") // what stands around a client's key in a name
	sum := int64(0)
	for n := range lengths {
		m, err := s.used(ctx, db, decide, strings.Repeat("u", max(1, shortest+n-around)))
		if err != nil {
			return 0, 0, err
		}
		sum += m.Bytes
	}
	return float64(sum) / lengths, first.Keys, nil
}

// used is the memory of one client's key that was used some times.
func (s *suite) used(ctx context.Context, db int, decide peers.Decide, key string) (redisinfo.Memory, error) {
	if err := s.server.Flush(ctx); err != nil {
		return redisinfo.Memory{}, err
	}
	for range 3 {
		if err := decide.Expect(ctx, key, true); err != nil {
			return redisinfo.Memory{}, err
		}
	}
	m, err := s.server.Memory(ctx, db)
	if err == nil && m.Keys == 0 {
		err = fmt.Errorf("no key in database %d", db)
	}
	return m, err
}

// threeLimits is overhead for a policy of three.
func (s *suite) threeLimits(ctx context.Context, db int) (float64, error) {
	c := redis.NewClient(&redis.Options{Addr: s.server.Addr, DB: db})
	defer func() { _ = c.Close() }()
	decide, err := peers.Decider(redisstore.New(c), core.PerSecond(10), core.PerMinute(100), core.PerDay(10_000))
	if err != nil {
		return 0, err
	}
	bytes, keys, err := s.overhead(ctx, db, decide)
	if err == nil && keys != 1 {
		err = fmt.Errorf("three limits take %d keys, must be 1", keys)
	}
	return bytes, err
}
