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
	rows := [][]string{{"bytes besides the name", "one limit", "Redis keys", "three limits", "Redis keys"}}
	var ours, ours3, theirs float64
	err := s.onRedis(ctx, usual, func(all []*peers.Redis) error {
		for _, r := range all {
			one, keys, err := s.overhead(ctx, r.DB, r.Decide)
			if err != nil {
				return fmt.Errorf("%s: %w", r.Name, err)
			}
			row := []string{r.Name, fmt.Sprintf("%.0f", one), fmt.Sprint(keys), fmt.Sprintf("%.0f", 3*one), fmt.Sprint(3 * keys)}
			switch r.Name {
			case peers.Library:
				three, keys, err := s.threeLimits(ctx, r.DB)
				if err != nil {
					return err
				}
				row[3], row[4] = fmt.Sprintf("%.0f", three), fmt.Sprint(keys)
				ours, ours3 = one, three
			case peers.RedisRate:
				theirs = one
			}
			rows = append(rows, row)
		}
		return nil
	}, onTheirOwn...)
	if err != nil {
		return err
	}
	s.target(report.AtMost("Redis memory per key, one limit", peers.RedisRate, ours/theirs, 1))
	s.target(report.UpTo("Redis memory per key, three limits, beyond redis_rate's with one", "B", ours3-theirs, 64))
	s.section("Redis: memory of one client",
		"MEMORY USAGE less the length of the name. Peers hold one limit in a key, so three limits take three keys, and three calls.", rows)
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
func (s *suite) threeLimits(ctx context.Context, db int) (float64, int64, error) {
	c := redis.NewClient(&redis.Options{Addr: s.server.Addr, DB: db})
	defer func() { _ = c.Close() }()
	decide, err := peers.Decider(redisstore.New(c), core.PerSecond(10), core.PerMinute(100), core.PerDay(10_000))
	if err != nil {
		return 0, 0, err
	}
	return s.overhead(ctx, db, decide)
}
