package main

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/tokenbucket-go/ratelimit/benchmarks/internal/child"
	"github.com/tokenbucket-go/ratelimit/benchmarks/internal/measure"
	"github.com/tokenbucket-go/ratelimit/benchmarks/internal/peers"
	"github.com/tokenbucket-go/ratelimit/benchmarks/internal/report"
)

// The contenders of cases in which not all take part.
var (
	inOneScript = []string{peers.Library, peers.RedisRate, peers.Rueidis, peers.Ulule}                                                           // decide in one script
	onTheirOwn  = []string{peers.Library, peers.RedisRate, peers.Rueidis, peers.Ulule, peers.Throttled, peers.HTTPRateRedis, peers.GinRateLimit} // without AutoPipeline
)

// processes measures one key that several processes share.
func (s *suite) processes(ctx context.Context) error {
	return s.onRedis(ctx, vast, func(all []*peers.Redis) error {
		fleets := make([][]*child.Process, len(all))
		defer func() {
			for _, p := range fleets {
				for _, process := range p {
					process.Stop()
				}
			}
		}()
		names := make([]string, len(all))
		for i, r := range all {
			names[i] = r.Name
			for range fleetSize {
				p, _, err := child.Start("process", "-redis", s.server.Addr, "-limiter", r.Name, "-goroutines", strconv.Itoa(perProc))
				if err != nil {
					return err
				}
				fleets[i] = append(fleets[i], p)
			}
		}
		probe := &serverProbe{ctx: ctx, server: s.server, all: all}
		if _, err := measure.TakeTurns(names, 1, func(i int) (map[measure.Metric]float64, error) {
			return s.together(fleets[i], probe, i) // so that no round pays for connecting
		}); err != nil {
			return err
		}
		series, err := measure.TakeTurns(names, s.rounds, func(i int) (map[measure.Metric]float64, error) {
			return s.together(fleets[i], probe, i)
		})
		if err != nil {
			return err
		}
		if err := s.countKeys(ctx, all, 1); err != nil {
			return err
		}
		base := measure.Named(series, peers.RedisRate)
		var each []string
		for _, v := range series {
			each = append(each, fmt.Sprintf("%s %s, %s µs", v.Name, withRatio(v, base, measure.PerSecond), report.Number(v.Median(serverCPU))))
		}
		s.section("Redis: one hot key of several processes", fmt.Sprintf("Decisions/s of %d processes of %d goroutines, which share no calls, and the server's CPU time for one:\n%s.",
			fleetSize, perProc, strings.Join(each, "; ")), nil)
		return nil
	}, inOneScript...)
}

// together has processes ask at once for a round.
func (s *suite) together(fleet []*child.Process, probe measure.Probe, contender int) (map[measure.Metric]float64, error) {
	if err := probe.Before(contender); err != nil {
		return nil, err
	}
	for _, p := range fleet {
		if err := p.Send(s.round.String()); err != nil {
			return nil, err
		}
	}
	var ops, perSecond float64
	var errs []error
	for _, p := range fleet {
		line, err := p.Receive()
		var n, each float64
		if err == nil {
			_, err = fmt.Sscan(line, &n, &each)
		}
		errs = append(errs, err)
		ops, perSecond = ops+n, perSecond+each
	}
	m := map[measure.Metric]float64{measure.PerSecond: perSecond}
	return m, errors.Join(append(errs, probe.After(contender, int64(ops), m))...)
}
