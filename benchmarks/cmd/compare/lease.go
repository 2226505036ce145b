package main

import (
	"context"
	"fmt"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/tokenbucket-go/ratelimit/benchmarks/internal/report"
	"github.com/tokenbucket-go/ratelimit/core"
	"github.com/tokenbucket-go/ratelimit/core/redisstore"
)

// A fleet is the processes of a service, each with a store and connections of its own.
type fleet struct {
	plain    *core.Limiter // tells what Redis has
	limiters []*core.Limiter
	clients  []*redis.Client
}

const (
	fleetSize = 4  // processes
	perProc   = 16 // goroutines
)

func newFleet(addr string, lease int64, limit core.Limit) (*fleet, error) {
	f := &fleet{}
	for i := range fleetSize + 1 {
		c := redis.NewClient(&redis.Options{Addr: addr, DB: 1})
		f.clients = append(f.clients, c)
		n := lease
		if i == fleetSize {
			n = 0
		}
		store := redisstore.New(c, redisstore.WithLease(n), redisstore.WithTimeout(3*time.Second))
		l, err := core.NewLimiter(store, core.Policy{Name: "lease", Limits: []core.Limit{limit}, OnFailure: core.FailClosed})
		if err != nil {
			return nil, err
		}
		f.limiters = append(f.limiters, l)
	}
	f.plain, f.limiters = f.limiters[fleetSize], f.limiters[:fleetSize]
	return f, nil
}

func (f *fleet) close() {
	for _, c := range f.clients {
		_ = c.Close()
	}
}

// flood asks for one key with all goroutines for d, and tells how many were admitted.
func (f *fleet) flood(ctx context.Context, d time.Duration) (admitted int64, err error) {
	var sum atomic.Int64
	var failed atomic.Pointer[error]
	end := time.Now().Add(d)
	var wg sync.WaitGroup
	for _, l := range f.limiters {
		for range perProc {
			wg.Go(func() {
				for time.Now().Before(end) && failed.Load() == nil {
					res, err := l.Allow(ctx, "everyone")
					if err != nil {
						failed.Store(&err)
					} else if res.Allowed {
						sum.Add(1)
					}
				}
			})
		}
	}
	wg.Wait()
	if err := failed.Load(); err != nil {
		return 0, *err
	}
	return sum.Load(), nil
}

// lease measures what leases cost: tokens that idle processes hold, and those that a limit would have
// admitted more.
func (s *suite) lease(ctx context.Context) error {
	rows := [][]string{{"4 processes, 64 goroutines", "admitted", "tokens parked", "given back after ms"}}
	for _, n := range []int64{0, 100, 1000} {
		share, err := s.leaseShare(ctx, n)
		if err != nil {
			return err
		}
		parked, back, err := s.leaseParked(ctx, n)
		if err != nil {
			return err
		}
		name := "without leases"
		if n > 0 {
			name = "leases of " + strconv.FormatInt(n, 10)
		}
		rows = append(rows, []string{name, fmt.Sprintf("%.2f %%", 100*share), report.Number(float64(parked)), report.Number(float64(back.Milliseconds()))})
	}
	s.section("Redis: what leases cost",
		"One key is flooded for five rounds. Admitted: of what Capacity 10,000 and 20,000 tokens a second allow. Parked: when requests end.", rows)
	return nil
}

// leaseShare floods a limit and tells which part of what it allows was admitted.
func (s *suite) leaseShare(ctx context.Context, lease int64) (float64, error) {
	if err := s.server.Flush(ctx); err != nil {
		return 0, err
	}
	limit := core.Limit{Capacity: 10_000, RefillRate: 20_000, RefillInterval: time.Second}
	f, err := newFleet(s.server.Addr, lease, limit)
	if err != nil {
		return 0, err
	}
	defer f.close()
	began := time.Now()
	admitted, err := f.flood(ctx, 5*s.round)
	most := limit.MaxIn(time.Since(began))
	if admitted > most {
		return 0, fmt.Errorf("%d were admitted, %d are allowed", admitted, most)
	}
	return float64(admitted) / float64(most), err
}

// leaseParked stops all processes at once and tells how many tokens they hold then, and for how long.
func (s *suite) leaseParked(ctx context.Context, lease int64) (parked int64, back time.Duration, err error) {
	if err := s.server.Flush(ctx); err != nil {
		return 0, 0, err
	}
	limit := core.Limit{Capacity: 100_000_000, RefillRate: 100_000_000, RefillInterval: 100 * 24 * time.Hour, Mode: core.Stepped}
	f, err := newFleet(s.server.Addr, lease, limit)
	if err != nil {
		return 0, 0, err
	}
	defer f.close()
	admitted, err := f.flood(ctx, s.round)
	ended := time.Now()
	for first := true; err == nil; first = false {
		var res core.Result
		if res, err = f.plain.Peek(ctx, "everyone"); err != nil {
			break
		}
		held := limit.Capacity - res.Remaining - admitted
		if first {
			parked = held
		}
		if held <= 0 {
			return parked, time.Since(ended), nil
		}
		if time.Since(ended) > 5*time.Second {
			return 0, 0, fmt.Errorf("%d tokens are parked after 5 s", held)
		}
	}
	return 0, 0, err
}
