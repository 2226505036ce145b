package main

import (
	"context"
	"fmt"
	"runtime"
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
	rows := [][]string{{"decisions/s, p50 ms by goroutines"}}
	for _, n := range []int{16, 64, 512} {
		series, err := s.fromAfar(ctx, addr, n)
		if err != nil {
			return fmt.Errorf("%d goroutines: %w", n, err)
		}
		rows[0] = append(rows[0], strconv.Itoa(n))
		base := measure.Named(series, peers.RedisRate)
		for i, v := range series {
			if len(rows) == i+1 {
				rows = append(rows, []string{v.Name})
			}
			rows[i+1] = append(rows[i+1], withRatio(v, base, measure.PerSecond)+", "+report.Number(v.Median(measure.P50)/1e3))
		}
	}
	s.section("Redis 1 ms away", fmt.Sprintf("Through a proxy that delays each direction by %v; a PING takes %v. Pools have a connection for each goroutine;\n"+
		"the default pool has %d.", halfWay, ping.Round(10*time.Microsecond), 10*runtime.GOMAXPROCS(0)), rows)
	return nil
}

// defaultPool is what the name of a contender with go-redis' default pool ends with.
const defaultPool = ", default pool"

// fromAfar measures decisions of n goroutines by the server at addr: with pools as large, and with default pools.
func (s *suite) fromAfar(ctx context.Context, addr string, n int) ([]measure.Series, error) {
	all, err := peers.OnRedis(peers.Connection{Addr: addr, Pool: n}, roomy,
		peers.Library, peers.RedisRate, peers.RedisRate+peers.Piped, peers.Rueidis, peers.Ulule, peers.Ulule+peers.Piped)
	if err != nil {
		return nil, err
	}
	defer closeAll(all)
	small, err := peers.OnRedis(peers.Connection{Addr: addr}, roomy, peers.Library, peers.RedisRate, peers.Ulule) // on the same keys
	if err != nil {
		return nil, err
	}
	defer closeAll(small)
	keys := names(manyKeys)
	if err := s.warmUp(ctx, all, keys); err != nil {
		return nil, err
	}
	request, cancel := context.WithCancel(ctx) // a client can hang up, so as in servers
	defer cancel()
	contenders := deciders(request, all, keys, true)
	for _, c := range deciders(request, small, keys, true) {
		c.Name += defaultPool
		contenders = append(contenders, c)
	}
	if err := openConnections(contenders, n); err != nil {
		return nil, err
	}
	series, err := measure.Interleave(contenders, measure.Options{Goroutines: n, Rounds: s.rounds, Round: s.round, Timed: true})
	if err != nil {
		return nil, err
	}
	return series, s.countKeys(ctx, all, len(keys))
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
