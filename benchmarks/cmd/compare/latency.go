package main

import (
	"context"
	"fmt"
	"strconv"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/tokenbucket-go/ratelimit/benchmarks/internal/child"
	"github.com/tokenbucket-go/ratelimit/benchmarks/internal/measure"
	"github.com/tokenbucket-go/ratelimit/benchmarks/internal/peers"
	"github.com/tokenbucket-go/ratelimit/benchmarks/internal/report"
)

// halfWay is the time that each direction of a round trip takes longer.
const halfWay = 500 * time.Microsecond

// latency measures a Redis with a longer round trip.
func (s *suite) latency(ctx context.Context) error {
	if err := s.server.Flush(ctx); err != nil {
		return err
	}
	proxy, addr, err := child.Start("delayproxy", "-to", s.server.Addr, "-delay", halfWay.String())
	if err != nil {
		return err
	}
	defer proxy.Stop()
	ping, err := roundTrip(ctx, addr)
	if err != nil {
		return err
	}
	if ping < 2*halfWay || ping > 3*halfWay {
		return fmt.Errorf("a PING takes %v, must be %v and at most half of that more", ping, 2*halfWay)
	}
	all, err := peers.OnRedis(addr, roomy, inOneScript...)
	if err != nil {
		return err
	}
	defer closeAll(all)
	keys := names(manyKeys)
	if err := s.warmUp(ctx, all, keys); err != nil {
		return err
	}
	request, cancel := context.WithCancel(ctx) // a client can hang up, so as in servers
	defer cancel()
	rows := [][]string{{"by goroutines"}}
	for _, r := range all {
		rows = append(rows, []string{r.Name})
	}
	for _, n := range []int{1, 16, 64, 512} {
		contenders := deciders(request, all, keys, true)
		if err := openConnections(contenders, n); err != nil {
			return err
		}
		series, err := measure.Interleave(contenders, measure.Options{Goroutines: n, Rounds: s.rounds, Round: s.round, Timed: true})
		if err != nil {
			return fmt.Errorf("%d goroutines: %w", n, err)
		}
		rows[0] = append(rows[0], strconv.Itoa(n)+": decisions/s", "p50 ms")
		base := measure.Named(series, peers.RedisRate)
		for i, v := range series {
			rows[i+1] = append(rows[i+1],
				fmt.Sprintf("%s (%s)", report.Number(v.Median(measure.PerSecond)), report.Times(v.Ratio(base, measure.PerSecond))),
				report.Number(v.Median(measure.P50)/1e3))
		}
	}
	if err := s.countKeys(ctx, all, len(keys)); err != nil {
		return err
	}
	s.section("Redis 1 ms away", fmt.Sprintf("The same as decisions per second above, through a proxy that delays each direction by %v. A PING takes %v. The ratio to\n"+
		"redis_rate is in brackets.", halfWay, ping.Round(10*time.Microsecond)), rows)
	return nil
}

// roundTrip is the median time of a PING.
func roundTrip(ctx context.Context, addr string) (time.Duration, error) {
	c := redis.NewClient(&redis.Options{Addr: addr})
	defer func() { _ = c.Close() }()
	var times []float64
	for range 101 {
		began := time.Now()
		if err := c.Ping(ctx).Err(); err != nil {
			return 0, err
		}
		times = append(times, float64(time.Since(began)))
	}
	return time.Duration(measure.Percentiles(times, 50)[0]), nil
}
