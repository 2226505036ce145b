package main

import (
	"context"
	"fmt"
	"math"

	"github.com/tokenbucket-go/ratelimit/benchmarks/internal/measure"
	"github.com/tokenbucket-go/ratelimit/benchmarks/internal/peers"
	"github.com/tokenbucket-go/ratelimit/benchmarks/internal/report"
)

// What this library may allocate for a request, with the default header fields.
const (
	mostAllocations = 4
	mostBytes       = 350
)

// http measures what a limiter in memory adds to a request that passes.
func (s *suite) http(context.Context) error {
	frameworks := []struct {
		build func(peers.Limit) peers.Framework
		ours  string  // of the target: this library with the peer's header fields
		peer  string  // of the target; "" for none
		bound float64 // times what the peer adds
	}{
		{peers.Gin, peers.LegacyFields, peers.Ulule, 0.6},
		{peers.Chi, peers.LegacyFields, peers.HTTPRate, 0.8},
		{peers.Echo, peers.LegacyFields, peers.EchoOwn, 1.5},
		{peers.Fiber, peers.LegacyFields, peers.FiberOwn, 1},
		{peers.NetHTTP, "", "", 0},
	}
	rows := [][]string{{"added to one request", "ns", "allocations", "bytes"}}
	for _, f := range frameworks {
		framework := f.build(roomy)
		series, err := s.framework(framework)
		if err != nil {
			return fmt.Errorf("%s: %w", framework.Name, err)
		}
		without := measure.Named(series, peers.Without)
		for _, v := range series {
			if v.Name == peers.Without {
				continue
			}
			row := []string{
				framework.Name + ": " + v.Name, report.Number(v.Added(without, measure.Nanos)),
				report.Number(v.Added(without, measure.Allocs)), fmt.Sprintf("%.0f", v.Added(without, measure.Bytes)),
			}
			if f.peer != "" && v.Name != f.peer {
				row[1] += " (" + report.Times(v.AddedRatio(measure.Named(series, f.peer), without, measure.Nanos)) + ")"
			}
			rows = append(rows, row)
		}
		what := "middleware"
		if f.peer != "" {
			ratio := measure.Named(series, f.ours).AddedRatio(measure.Named(series, f.peer), without, measure.Nanos)
			s.target(report.AtMost(what+", same fields: "+framework.Name, f.peer, ratio, f.bound))
		}
		ours := measure.Named(series, peers.Library)
		allocations := math.Round(ours.Added(without, measure.Allocs)) // what the process does in the background adds some hundredths
		s.target(report.UpTo(what+", default fields: "+framework.Name, "allocations", allocations, mostAllocations))
		s.target(report.UpTo(what+", default fields: "+framework.Name, "B", ours.Added(without, measure.Bytes), mostBytes))
	}
	s.section("Middleware",
		"In process, with 1,000 addresses and buckets in memory. Ratios are to "+peers.Ulule+", "+peers.HTTPRate+", echo's and fiber's own.", rows)
	return nil
}

func (s *suite) framework(f peers.Framework) ([]measure.Series, error) {
	var contenders []measure.Contender
	for _, m := range f.Middlewares {
		contenders = append(contenders, measure.Contender{Name: m.Name, Worker: m.Worker})
	}
	return measure.Interleave(contenders, measure.Options{Goroutines: 1, Rounds: s.rounds, Round: s.round})
}
