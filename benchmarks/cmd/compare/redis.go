package main

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/tokenbucket-go/ratelimit/benchmarks/internal/measure"
	"github.com/tokenbucket-go/ratelimit/benchmarks/internal/peers"
	"github.com/tokenbucket-go/ratelimit/benchmarks/internal/report"
)

// manyKeys is how many clients are limited.
const manyKeys = 10_000

// The limits of many keys in Redis, and of a single key or in memory.
var (
	roomy = peers.Roomy
	vast  = peers.Vast
)

// concurrency are the numbers of goroutines.
var concurrency = []int{1, 4, 16, 64, 512}

// redis measures allowed requests on 10,000 keys.
func (s *suite) redis(ctx context.Context) error {
	keys := names(manyKeys)
	return s.onRedis(ctx, roomy, func(all []*peers.Redis) error {
		if err := s.warmUp(ctx, all, keys); err != nil {
			return err
		}
		request, cancel := context.WithCancel(ctx) // a client can hang up, so as in servers
		defer cancel()
		at := map[int][]measure.Series{}
		for _, n := range concurrency {
			contenders := deciders(request, all, keys, true)
			if err := openConnections(contenders, n); err != nil {
				return err
			}
			series, err := measure.Interleave(contenders, measure.Options{
				Goroutines: n, Rounds: s.rounds, Round: s.round, Probe: &serverProbe{ctx: ctx, server: s.server, all: all},
			})
			if err != nil {
				return fmt.Errorf("%d goroutines: %w", n, err)
			}
			at[n] = series
		}
		if err := s.countKeys(ctx, all, len(keys)); err != nil {
			return err
		}
		s.redisTargets(at)
		s.redisTables(all, at)
		return nil
	})
}

func (s *suite) redisTargets(at map[int][]measure.Series) {
	against := func(n int, peer string, m measure.Metric) float64 {
		return measure.Named(at[n], peers.Library).Ratio(measure.Named(at[n], peer), m)
	}
	for _, t := range []struct {
		goroutines int
		peer       string
		least      float64
	}{
		{1, peers.RedisRate, 1.05},
		{4, peers.RedisRate, 1.2},
		{16, peers.RedisRate, 2},
		{64, peers.RedisRate, 3},
		{512, peers.RedisRate, 4.5},
		{64, peers.Rueidis, 1.2},
		{512, peers.Rueidis, 1.6},
	} {
		s.target(report.AtLeast(fmt.Sprintf("Redis decisions/s, goroutines: %d", t.goroutines), t.peer,
			against(t.goroutines, t.peer, measure.PerSecond), t.least))
	}
	s.target(report.AtMost("a single decision, p50", peers.RedisRate, against(1, peers.RedisRate, measure.P50), 0.95))
	s.target(report.UpTo("a single decision", "allocations", measure.Named(at[1], peers.Library).Median(measure.Allocs), 20))
	s.target(report.AtMost("script time of a call with one decision", peers.RedisRate, against(1, peers.RedisRate, scriptTime), 0.85))
	s.target(report.AtMost("script time per decision, 64 goroutines", peers.RedisRate, against(64, peers.RedisRate, scriptTime), 0.5))
}

func (s *suite) redisTables(all []*peers.Redis, at map[int][]measure.Series) {
	head := []string{"decisions/s by goroutines"}
	s.plot = &report.Plot{
		Title:  "Decisions per second on one Redis, 10,000 keys",
		XLabel: "goroutines", YLabel: "decisions/s",
	}
	for _, n := range concurrency {
		head = append(head, strconv.Itoa(n))
		s.plot.X = append(s.plot.X, float64(n))
	}
	rows := [][]string{head}
	for i, r := range all {
		row := []string{r.Name}
		line := report.Line{Name: r.Name}
		for _, n := range concurrency {
			base := measure.Named(at[n], peers.RedisRate)
			row = append(row, withRatio(at[n][i], base, measure.PerSecond))
			low, high := at[n][i].Quartiles(measure.PerSecond)
			line.Y, line.Low, line.High = append(line.Y, at[n][i].Median(measure.PerSecond)), append(line.Low, low), append(line.High, high)
		}
		rows = append(rows, row)
		s.plot.Lines = append(s.plot.Lines, line)
	}
	s.section("Redis: decisions per second", "10,000 keys with one limit, all requests allowed. AutoPipeline of go-redis is experimental.", rows)

	rows = [][]string{{"one goroutine", "p50 µs", "allocations", "script µs"}}
	base := measure.Named(at[1], peers.RedisRate)
	for _, v := range withoutPipes(at[1]) {
		rows = append(rows, []string{v.Name, withRatio(v, base, measure.P50), report.Number(v.Median(measure.Allocs)), scriptTimes(v, base)})
	}
	s.section("Redis: latency", "With a context that can be cancelled, as that of a web request. Script: the time in EVALSHA (INFO commandstats).", rows)
	s.serverTable(at[64])
}

func (s *suite) serverTable(series []measure.Series) {
	rows := [][]string{{"64 goroutines", "script µs", "server CPU µs", "commands", "client allocations"}}
	base := measure.Named(series, peers.RedisRate)
	for _, v := range withoutPipes(series) {
		rows = append(rows, []string{
			v.Name, scriptTimes(v, base), withRatio(v, base, serverCPU), report.Number(v.Median(commands)), report.Number(v.Median(measure.Allocs)),
		})
	}
	s.section("Redis: the server's work for one decision",
		"CPU: all of the server's, network included (INFO cpu). Commands: also those inside scripts.", rows)
}

// scriptTimes is the time in scripts, of limiters that decide in one.
func scriptTimes(v, base measure.Series) string {
	if !v.Has(scriptTime) {
		return "–"
	}
	return withRatio(v, base, scriptTime)
}

// withoutPipes are the series of contenders without AutoPipeline.
func withoutPipes(all []measure.Series) []measure.Series {
	return slices.DeleteFunc(slices.Clone(all), func(v measure.Series) bool { return strings.HasSuffix(v.Name, peers.Piped) })
}
