package main

import (
	"context"

	"github.com/tokenbucket-go/ratelimit/benchmarks/internal/measure"
	"github.com/tokenbucket-go/ratelimit/benchmarks/internal/peers"
	"github.com/tokenbucket-go/ratelimit/benchmarks/internal/report"
)

// hotKey measures one key that all goroutines share.
//
// Once core.WithLease exists, the library with leases stands here as a contender of its own (see
// internal/peers/redis_library.go), with the target of 20 times the decisions/s of the library without.
func (s *suite) hotKey(ctx context.Context) error {
	const goroutines = 64
	key := []string{"everyone"}
	return s.onRedis(ctx, vast, func(all []*peers.Redis) error {
		request, cancel := context.WithCancel(ctx)
		defer cancel()
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
		s.section("Redis: one hot key", "All goroutines ask for the same key.", rows)
		return nil
	})
}
