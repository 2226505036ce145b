package main

import (
	"context"
	"fmt"
	"net/http"
	"strconv"
	"sync"

	"github.com/tokenbucket-go/ratelimit/benchmarks/internal/apps"
	"github.com/tokenbucket-go/ratelimit/benchmarks/internal/child"
	"github.com/tokenbucket-go/ratelimit/benchmarks/internal/measure"
	"github.com/tokenbucket-go/ratelimit/benchmarks/internal/peers"
	"github.com/tokenbucket-go/ratelimit/benchmarks/internal/report"
	"github.com/tokenbucket-go/ratelimit/benchmarks/internal/wrk"
)

// connections of the load generator, and the least that this library serves in gin of what ulule/limiter does; 0 for no
// target. With 4, each request's goroutine sends its own call to Redis: as many may be in flight.
var connections = []struct {
	n     int
	least float64
}{{4, 0}, {8, 1.05}, {64, 1.4}, {256, 1.8}}

// servers measures whole web applications under a load generator.
func (s *suite) servers(ctx context.Context) error {
	generator, err := wrk.New()
	if err != nil {
		return err
	}
	defer generator.Close()
	rows := [][]string{{"requests/s, p99 ms by connections"}}
	for _, c := range connections {
		rows[0] = append(rows[0], strconv.Itoa(c.n))
	}
	for _, framework := range []string{"gin", "chi"} {
		more, err := s.serversOf(ctx, generator, framework)
		if err != nil {
			return fmt.Errorf("%s: %w", framework, err)
		}
		rows = append(rows, more...)
	}
	s.section("Whole servers", "One route, a limiter on Redis, and 10,000 clients with API keys; wrk loads one application at a time. Ratios are to "+peers.Ulule+", which sends\n"+
		"three header fields. ratelimit sends five, or those that the row names: three or two. With 4 connections each request's goroutine sends its own\n"+
		"call; with more, requests share at most 4 calls.", rows)
	return nil
}

// serversOf measures the applications of a framework.
func (s *suite) serversOf(ctx context.Context, generator *wrk.Wrk, framework string) (rows [][]string, err error) {
	if err := s.server.Flush(ctx); err != nil {
		return nil, err
	}
	var servers []*webServer
	var names []string
	defer func() {
		for _, w := range servers {
			w.process.Stop()
		}
	}()
	for _, app := range apps.All {
		if app.Framework != framework {
			continue
		}
		w, err := s.startServer(app, len(servers)+1)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", app.Limiter, err)
		}
		servers, names = append(servers, w), append(names, app.Limiter)
		if err := s.checkServer(ctx, w); err != nil {
			return nil, fmt.Errorf("%s: %w", app.Limiter, err)
		}
		rows = append(rows, []string{framework + ": " + app.Limiter})
	}
	for _, c := range connections {
		series, err := measure.TakeTurns(names, s.rounds, func(i int) (map[measure.Metric]float64, error) {
			return s.load(generator, servers[i], c.n)
		})
		if err != nil {
			return nil, fmt.Errorf("%d connections: %w", c.n, err)
		}
		base := measure.Named(series, peers.Ulule)
		for i, v := range series {
			rows[i] = append(rows[i], withRatio(v, base, measure.PerSecond)+", "+report.Number(v.Median(measure.P99)/1e3))
		}
		if framework == "gin" && c.least > 0 {
			s.target(report.AtLeast(fmt.Sprintf("gin requests/s, connections: %d", c.n), peers.Ulule,
				measure.Named(series, peers.Library).Ratio(base, measure.PerSecond), c.least))
		}
	}
	for _, w := range servers {
		if err := s.countKeysIn(ctx, w.app.Limiter, w.db, manyKeys*w.app.KeysPerKey); err != nil {
			return nil, err
		}
	}
	return rows, nil
}

// webServer is an application in a process of its own.
type webServer struct {
	app     apps.App
	db      int
	process *child.Process
	url     string
	next    int // the client that asks next
}

func (s *suite) startServer(app apps.App, db int) (*webServer, error) {
	process, addr, err := child.Start("server", "-framework", app.Framework, "-limiter", app.Limiter,
		"-redis", s.server.Addr, "-db", strconv.Itoa(db))
	return &webServer{app: app, db: db, process: process, url: "http://" + addr + apps.Path}, err
}

// checkServer asks once as each client, and counts their keys.
func (s *suite) checkServer(ctx context.Context, w *webServer) error {
	const goroutines = 16
	transport := &http.Transport{MaxIdleConnsPerHost: goroutines}
	defer transport.CloseIdleConnections()
	client := &http.Client{Transport: transport}
	errs := make([]error, goroutines)
	var wait sync.WaitGroup
	for g := range goroutines {
		wait.Go(func() {
			for i := g; i < manyKeys && errs[g] == nil; i += goroutines {
				errs[g] = wrk.Check(client, w.url, apps.KeyHeader, wrk.Client(i), w.app.Sends)
			}
		})
	}
	wait.Wait()
	for _, err := range errs {
		if err != nil {
			return err
		}
	}
	return s.countKeysIn(ctx, w.app.Limiter, w.db, manyKeys*w.app.KeysPerKey)
}

// load is one round.
func (s *suite) load(generator *wrk.Wrk, w *webServer, connections int) (map[measure.Metric]float64, error) {
	m, err := generator.Run(w.url, wrk.Load{
		Connections: connections, Length: s.round, Field: apps.KeyHeader, Clients: manyKeys, First: w.next,
	})
	w.next += int(m.Requests)
	return map[measure.Metric]float64{
		measure.PerSecond: float64(m.Requests) / m.Elapsed.Seconds(),
		measure.P99:       float64(m.P99.Microseconds()),
	}, err
}
