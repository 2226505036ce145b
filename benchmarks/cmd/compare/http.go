package main

import (
	"context"
	"fmt"

	"github.com/tokenbucket-go/ratelimit/benchmarks/internal/measure"
	"github.com/tokenbucket-go/ratelimit/benchmarks/internal/peers"
	"github.com/tokenbucket-go/ratelimit/benchmarks/internal/report"
)

// http measures what a limiter in memory adds to a request that passes.
func (s *suite) http(context.Context) error {
	frameworks := []struct {
		build func(peers.Limit) peers.Framework
		peer  string  // of the target; "" for none
		bound float64 // times what the peer adds
	}{
		{peers.Gin, peers.Ulule, 0.5},
		{peers.Chi, peers.HTTPRate, 0.5},
		{peers.Echo, peers.EchoOwn, 2},
		{peers.Fiber, peers.FiberOwn, 1},
		{peers.NetHTTP, "", 0},
	}
	rows := [][]string{{"one request", "added ns", "ratio of this library's", "added allocations", "whole request, ns"}}
	for _, f := range frameworks {
		framework := f.build(roomy)
		series, err := s.framework(framework)
		if err != nil {
			return fmt.Errorf("%s: %w", framework.Name, err)
		}
		without, ours := measure.Named(series, peers.Without), measure.Named(series, peers.Library)
		added := func(v measure.Series) float64 { return v.Added(without, measure.Nanos) }
		for _, v := range series {
			row := []string{framework.Name + ": " + v.Name, "–", "–", "–", report.Number(v.Median(measure.Nanos))}
			if v.Name != peers.Without {
				row[1], row[3] = report.Number(added(v)), report.Number(v.Added(without, measure.Allocs))
				row[2] = report.Times(added(ours) / added(v))
			}
			rows = append(rows, row)
		}
		if f.peer != "" {
			s.target(report.AtMost("added to a request: "+framework.Name, f.peer, added(ours)/added(measure.Named(series, f.peer)), f.bound))
		}
	}
	s.section("Middleware: added to a request",
		"Time with the limiter less time without, in process, 1,000 client addresses, buckets in memory, default header fields. The ratio is this\n"+
			"library's addition ÷ that of the row: below 1 it adds less.", rows)
	return nil
}

func (s *suite) framework(f peers.Framework) ([]measure.Series, error) {
	var contenders []measure.Contender
	for _, m := range f.Middlewares {
		contenders = append(contenders, measure.Contender{Name: m.Name, Worker: m.Worker})
	}
	return measure.Interleave(contenders, measure.Options{Goroutines: 1, Rounds: s.rounds, Round: s.round})
}
