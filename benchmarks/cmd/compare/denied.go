package main

import (
	"context"
	"fmt"
	"time"

	"github.com/tokenbucket-go/ratelimit/benchmarks/internal/measure"
	"github.com/tokenbucket-go/ratelimit/benchmarks/internal/peers"
	"github.com/tokenbucket-go/ratelimit/benchmarks/internal/report"
)

// denied measures a client that was denied and asks again before RetryAfter. This library repeats such a
// denial by itself, and asks Redis again once a second (redisstore.WithDenyCache's default).
func (s *suite) denied(ctx context.Context) error {
	tight := peers.Limit{Burst: 1, Rate: 1, Per: time.Hour}
	key := []string{"user:denied"}
	return s.onRedis(ctx, tight, func(all []*peers.Redis) error {
		for _, r := range all {
			if err := r.Decide.Expect(ctx, key[0], true); err != nil {
				return fmt.Errorf("%s: %w", r.Name, err)
			}
		}
		request, cancel := context.WithCancel(ctx)
		defer cancel()
		contenders := deciders(request, all, key, false)
		if err := openConnections(contenders, 1); err != nil {
			return err
		}
		series, err := measure.Interleave(contenders, measure.Options{
			Goroutines: 1, Rounds: s.rounds, Round: s.round, Probe: &serverProbe{ctx: ctx, server: s.server, all: all},
		})
		if err != nil {
			return err
		}
		rows := [][]string{{"one goroutine", "ns", "allocations", "commands"}}
		base := measure.Named(series, peers.RedisRate)
		for _, v := range series {
			rows = append(rows, []string{
				v.Name, withRatio(v, base, measure.Nanos), report.Number(v.Median(measure.Allocs)), report.Number(v.Median(commands)),
			})
		}
		ours := measure.Named(series, peers.Library)
		s.target(report.None("a denied key asked again", "Redis commands", ours.Median(commands)))
		s.target(report.UpTo("a denied key asked again", "ns", ours.Median(measure.Nanos), 120))
		s.target(report.None("a denied key asked again", "allocations", ours.Median(measure.Allocs)))
		s.section("Redis: a denied key asked again", "For one decision.", rows)
		return nil
	}, inOneScript...)
}
