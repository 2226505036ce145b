package main

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/tokenbucket-go/ratelimit/benchmarks/internal/measure"
	"github.com/tokenbucket-go/ratelimit/benchmarks/internal/peers"
	"github.com/tokenbucket-go/ratelimit/benchmarks/internal/redisinfo"
)

// What the server did, for one decision.
const (
	scriptTime measure.Metric = "script µs"
	serverCPU  measure.Metric = "server CPU µs"
	commands   measure.Metric = "commands"
)

// serverProbe measures the server's work for each contender.
type serverProbe struct {
	ctx    context.Context
	server *redisinfo.Server
	all    []*peers.Redis
	cpu    float64
}

func (p *serverProbe) Before(int) error {
	if err := p.server.Reset(p.ctx); err != nil {
		return err
	}
	w, err := p.server.Work(p.ctx)
	p.cpu = w.CPU
	return err
}

func (p *serverProbe) After(contender int, ops int64, into map[measure.Metric]float64) error {
	w, err := p.server.Work(p.ctx)
	into[serverCPU] = (w.CPU - p.cpu) / float64(ops)
	into[commands] = w.Commands / float64(ops)
	if p.all[contender].Scripted {
		into[scriptTime] = w.Scripts / float64(ops)
	}
	return err
}

// onRedis builds the limiters on an empty server, all or those named, has f use them and closes them.
func (s *suite) onRedis(ctx context.Context, l peers.Limit, f func([]*peers.Redis) error, names ...string) error {
	if err := s.server.Flush(ctx); err != nil {
		return err
	}
	all, err := peers.OnRedis(peers.Connection{Addr: s.server.Addr}, l, names...)
	if err != nil {
		return err
	}
	defer closeAll(all)
	return f(all)
}

func closeAll(all []*peers.Redis) {
	for _, r := range all {
		r.Close()
	}
}

// deciders are contenders whose every decision on keys must be want.
func deciders(ctx context.Context, all []*peers.Redis, keys []string, want bool) []measure.Contender {
	var contenders []measure.Contender
	for _, r := range all {
		contenders = append(contenders, decider(ctx, r.Name, r.Decide, keys, want))
	}
	return contenders
}

func decider(ctx context.Context, name string, decide peers.Decide, keys []string, want bool) measure.Contender {
	return measure.Contender{Name: name, Worker: func() func(int) error {
		return func(i int) error {
			return decide.Expect(ctx, keys[i%len(keys)], want)
		}
	}}
}

// names are n different keys.
func names(n int) []string {
	keys := make([]string, n)
	for i := range keys {
		keys[i] = fmt.Sprintf("user:%06d", i)
	}
	return keys
}

// warmUp has every contender use each key once, and counts the keys it made.
func (s *suite) warmUp(ctx context.Context, all []*peers.Redis, keys []string) error {
	const goroutines = 16
	for _, r := range all {
		errs := make([]error, goroutines)
		var wait sync.WaitGroup
		for g := range goroutines {
			wait.Go(func() {
				for i := g; i < len(keys) && errs[g] == nil; i += goroutines {
					errs[g] = r.Decide.Expect(ctx, keys[i], true)
				}
			})
		}
		wait.Wait()
		for _, err := range errs {
			if err != nil {
				return fmt.Errorf("%s, first use of keys: %w", r.Name, err)
			}
		}
	}
	return s.countKeys(ctx, all, len(keys))
}

// countKeys fails unless every contender has that many keys. A window that ended in between leaves
// keys of two.
func (s *suite) countKeys(ctx context.Context, all []*peers.Redis, want int) error {
	for _, r := range all {
		if err := s.countKeysIn(ctx, r.Name, r.DB, int64(want)*r.KeysPerKey); err != nil {
			return err
		}
	}
	return nil
}

func (s *suite) countKeysIn(ctx context.Context, name string, db int, least int64) error {
	n, err := s.server.Keys(ctx, db)
	if err == nil && (n < least || n > 2*least) {
		err = fmt.Errorf("%s: %d keys in its database, must be %d", name, n, least)
	}
	return err
}

// openConnections runs the load for a moment, so that no round pays for connecting.
func openConnections(contenders []measure.Contender, goroutines int) error {
	_, err := measure.Interleave(contenders, measure.Options{Goroutines: goroutines, Rounds: 1, Round: 100 * time.Millisecond})
	return err
}
