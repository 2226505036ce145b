package main

import (
	"context"
	"slices"

	"github.com/tokenbucket-go/ratelimit/benchmarks/internal/measure"
	"github.com/tokenbucket-go/ratelimit/benchmarks/internal/peers"
	"github.com/tokenbucket-go/ratelimit/benchmarks/internal/report"
)

// leaseSizes are those of the contenders that lease.
var leaseSizes = []int64{100, 1000, 10_000}

// hotKey measures one key that all goroutines share.
func (s *suite) hotKey(ctx context.Context) error {
	const goroutines = 64
	key := []string{"everyone"}
	return s.onRedis(ctx, vast, func(all []*peers.Redis) error {
		request, cancel := context.WithCancel(ctx)
		defer cancel()
		for i, n := range leaseSizes {
			r, err := peers.NewLeasing(s.server.Addr, len(all)+1, vast, n)
			if err != nil {
				return err
			}
			defer r.Close()
			all = slices.Insert(all, 1+i, r)
		}
		contenders := deciders(request, all, key, true)
		if err := openConnections(contenders, goroutines); err != nil {
			return err
		}
		series, err := measure.Interleave(contenders, measure.Options{
			Goroutines: goroutines, Rounds: s.rounds, Round: s.round, Probe: &serverProbe{ctx: ctx, server: s.server, all: all},
		})
		if err != nil {
			return err
		}
		if err := s.countKeys(ctx, all, 1); err != nil {
			return err
		}
		rows := [][]string{{"64 goroutines, one key", "decisions/s", "ratio to redis_rate", "server CPU µs"}}
		base := measure.Named(series, peers.RedisRate)
		for _, v := range series {
			rows = append(rows, []string{
				v.Name, report.Number(v.Median(measure.PerSecond)), report.Times(v.Ratio(base, measure.PerSecond)),
				report.Number(v.Median(serverCPU)),
			})
		}
		s.target(report.AtLeast("one hot key, 64 goroutines, leases of 10,000", "without leases",
			series[len(leaseSizes)].Ratio(series[0], measure.PerSecond), 20))
		s.section("Redis: one hot key", "All goroutines ask for the same key. With redisstore.WithLease a process takes tokens ahead and decides by itself.", rows)
		return nil
	})
}
