package main

import (
	"context"
	"fmt"
	"slices"

	"github.com/tokenbucket-go/ratelimit/benchmarks/internal/measure"
	"github.com/tokenbucket-go/ratelimit/benchmarks/internal/peers"
	"github.com/tokenbucket-go/ratelimit/benchmarks/internal/report"
)

// leaseSizes are those of the contenders that lease.
var leaseSizes = []int64{100, 1000, 10_000}

// hotKey measures one key that all goroutines share.
func (s *suite) hotKey(ctx context.Context) error {
	key := []string{"everyone"}
	return s.onRedis(ctx, vast, func(all []*peers.Redis) error {
		request, cancel := context.WithCancel(ctx)
		defer cancel()
		for i, n := range leaseSizes {
			r, err := peers.NewLeasing(peers.Connection{Addr: s.server.Addr, DB: peers.Databases + 1 + i}, vast, n)
			if err != nil {
				return err
			}
			defer r.Close()
			all = slices.Insert(all, 1+i, r)
		}
		contenders := deciders(request, all, key, true)
		rows := [][]string{{"decisions/s, server CPU µs"}}
		for _, r := range all {
			rows = append(rows, []string{r.Name})
		}
		at := map[int][]measure.Series{}
		for _, goroutines := range []int{64, 512} {
			if err := openConnections(contenders, goroutines); err != nil {
				return err
			}
			series, err := measure.Interleave(contenders, measure.Options{
				Goroutines: goroutines, Rounds: s.rounds, Round: s.round, Probe: &serverProbe{ctx: ctx, server: s.server, all: all},
			})
			if err != nil {
				return fmt.Errorf("%d goroutines: %w", goroutines, err)
			}
			rows[0] = append(rows[0], fmt.Sprintf("%d goroutines", goroutines))
			base := measure.Named(series, peers.RedisRate)
			for i, v := range series {
				rows[i+1] = append(rows[i+1], withRatio(v, base, measure.PerSecond)+", "+report.Number(v.Median(serverCPU)))
			}
			at[goroutines] = series
		}
		if err := s.countKeys(ctx, all, 1); err != nil {
			return err
		}
		s.hotKeyTargets(at)
		s.section("Redis: one hot key", "Leases: with redisstore.WithLease a process takes tokens ahead, and decides by itself.", rows)
		return nil
	}, slices.Concat(inOneScript, []string{peers.RedisRate + peers.Piped, peers.Ulule + peers.Piped})...)
}

func (s *suite) hotKeyTargets(at map[int][]measure.Series) {
	against := func(goroutines int) float64 {
		return at[goroutines][0].Ratio(measure.Named(at[goroutines], peers.RedisRate), measure.PerSecond)
	}
	s.target(report.AtLeast("one hot key, 64 goroutines", peers.RedisRate, against(64), 6))
	s.target(report.AtLeast("one hot key, 512 goroutines", peers.RedisRate, against(512), 12))
	s.target(report.UpTo("one hot key, 512 goroutines, server CPU", "µs a decision", at[512][0].Median(serverCPU), 0.5))
	s.target(report.AtLeast("one hot key, 64 goroutines, leases of 10,000", "the rate without leases",
		at[64][len(leaseSizes)].Ratio(at[64][0], measure.PerSecond), 20))
}
