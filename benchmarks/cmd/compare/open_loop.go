package main

import (
	"context"
	"errors"
	"fmt"
	"math"
	"runtime"

	"github.com/tokenbucket-go/ratelimit/benchmarks/internal/measure"
	"github.com/tokenbucket-go/ratelimit/benchmarks/internal/peers"
	"github.com/tokenbucket-go/ratelimit/benchmarks/internal/report"
)

const (
	// mostUnderWay bounds the requests that wait at once.
	mostUnderWay = 20_000
	// nothing is the contender that decides at once, without Redis: what it takes is the load's own.
	nothing = "the load alone"
)

// shares of redis_rate's maximum at which latency is measured.
var shares = []float64{0.3, 0.7}

// percentiles that are shown.
var percentiles = []measure.Metric{measure.P50, measure.P99}

// openLoop measures latency under requests that come at a fixed rate, whether or not earlier ones are answered.
func (s *suite) openLoop(ctx context.Context) error {
	const goroutines = 64
	keys := names(manyKeys)
	return s.onRedis(ctx, roomy, func(all []*peers.Redis) error {
		if err := s.warmUp(ctx, all, keys); err != nil {
			return err
		}
		request, cancel := context.WithCancel(ctx) // a client can hang up, so as in servers
		defer cancel()
		contenders := deciders(request, all, keys, true)
		if err := openConnections(contenders, goroutines); err != nil {
			return err
		}
		most, err := s.most(contenders, goroutines)
		if err != nil {
			return err
		}
		contenders = append(contenders, measure.Contender{Name: nothing, Worker: func() func(int) error {
			return func(int) error { return nil }
		}})
		rows := [][]string{{"p50, p99 µs"}}
		for _, c := range contenders {
			rows = append(rows, []string{c.Name})
		}
		overruns := ""
		for _, share := range shares {
			series, overrun, err := s.atRate(contenders, share*most)
			if err != nil {
				return err
			}
			rows[0] = append(rows[0], report.Number(share*most)+"/s")
			base := measure.Named(series, peers.RedisRate)
			for i, v := range series {
				rows[i+1] = append(rows[i+1], latency(v, base, measure.P50)+", "+latency(v, base, measure.P99))
				if overrun[i] > 0 {
					overruns += fmt.Sprintf("\nAt %.0f %% more than %d requests waited for %s, in %d of %d rounds.",
						100*share, mostUnderWay, v.Name, overrun[i], s.rounds)
				}
			}
		}
		if err := s.countKeys(ctx, all, len(keys)); err != nil {
			return err
		}
		s.section("Redis: latency under a fixed rate",
			fmt.Sprintf("An open loop: Poisson arrivals, the same for all, of %.0f %% and %.0f %% of the %s/s that redis_rate reaches with %d goroutines. Latency counts from\n"+
				"the time at which a request is due.", 100*shares[0], 100*shares[1], report.Number(most), goroutines)+overruns, rows)
		return nil
	}, inOneScript...)
}

// latency is a percentile with its ratio to that of base.
func latency(v, base measure.Series, p measure.Metric) string {
	if math.IsInf(v.Median(p), 1) {
		return "endless"
	}
	return withRatio(v, base, p)
}

// most is how many decisions a second redis_rate reaches.
func (s *suite) most(contenders []measure.Contender, goroutines int) (float64, error) {
	for _, c := range contenders {
		if c.Name == peers.RedisRate {
			series, err := measure.Interleave([]measure.Contender{c}, measure.Options{Goroutines: goroutines, Rounds: s.rounds, Round: s.round})
			if err != nil {
				return 0, err
			}
			return series[0].Median(measure.PerSecond), nil
		}
	}
	return 0, errors.New("redis_rate is no contender")
}

// atRate measures all at a rate. A round that overran counts as endless, and overrun tells how many did.
func (s *suite) atRate(contenders []measure.Contender, perSecond float64) (series []measure.Series, overrun []int, err error) {
	names := make([]string, len(contenders))
	for i, c := range contenders {
		names[i] = c.Name
	}
	overrun = make([]int, len(contenders))
	turns := make([]uint64, len(contenders))
	series, err = measure.TakeTurns(names, s.rounds, func(i int) (map[measure.Metric]float64, error) {
		runtime.GC() // nobody pays for another's garbage
		turns[i]++
		arrivals := measure.Poisson(perSecond, s.round, turns[i])
		latencies, err := measure.OpenLoop(contenders[i].Worker(), arrivals, mostUnderWay)
		m := map[measure.Metric]float64{}
		if errors.Is(err, measure.ErrOverrun) {
			overrun[i]++
			for _, p := range percentiles {
				m[p] = math.Inf(1)
			}
			return m, nil
		}
		for j, ns := range measure.Percentiles(latencies, 50, 99) {
			m[percentiles[j]] = ns / 1e3
		}
		return m, err
	})
	return series, overrun, err
}
