package storetest

import (
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/tokenbucket-go/ratelimit/core"
)

var concurrencyRules = []storeRule{
	{"concurrent requests get exactly the capacity", exactUnderConcurrency},
	{"concurrent takes and refunds lose nothing", conservedUnderConcurrency},
	{"concurrent reservations get a place each", placesUnderConcurrency},
	{"concurrent requests on a running clock get no more than MaxIn", boundedOnARunningClock},
}

const goroutines = 64

// together calls do in 64 goroutines, with the number of each.
func together(do func(n int)) {
	var wg sync.WaitGroup
	for n := range goroutines {
		wg.Go(func() { do(n) })
	}
	wg.Wait()
}

func exactUnderConcurrency(s *subject) {
	l := s.limiter(core.PerDay(100).WithName("day"), core.PerHour(1000).WithName("hour"))
	var granted [4]atomic.Int64
	together(func(n int) {
		for i := range 40 {
			k := (n + i) % len(granted)
			res, err := l.Allow(s.Context(), key+strconv.Itoa(k))
			if err != nil {
				s.Errorf("Allow: %v", err)
				return
			}
			if res.Allowed {
				granted[k].Add(1)
			}
		}
	})
	for k := range granted {
		if got := granted[k].Load(); got != 100 {
			s.Errorf("64 goroutines got %d of 100 tokens of key %d: reading the state and replacing it must be one atomic step", got, k)
		}
	}
}

// If a store reads the clock outside the atomic step, a decision can come after
// one with a later instant, and sees a clock that stepped back. The boundary of
// an Aligned limit shows that best.
func boundedOnARunningClock(s *subject) {
	for _, limit := range []core.Limit{
		core.PerSecond(1000).WithBurst(1),
		{Capacity: 10, RefillRate: 10, RefillInterval: 20 * time.Millisecond, Mode: core.Aligned},
		{Capacity: 10, RefillRate: 10, RefillInterval: 20 * time.Millisecond, Mode: core.Stepped},
	} {
		l := s.limiterOf(limit.Mode.String(), limit)
		begin := s.clock.Now()
		s.clock.run(50 * time.Microsecond)
		var granted atomic.Int64
		together(func(int) {
			for range 50 {
				if res, err := l.Allow(s.Context(), key); err != nil {
					s.Errorf("Allow: %v", err)
				} else if res.Allowed {
					granted.Add(1)
				}
			}
		})
		s.clock.run(0)
		if most := limit.MaxIn(s.clock.Now().Sub(begin)); granted.Load() > most {
			s.Errorf("64 goroutines got %d tokens where MaxIn says %d (%s): the clock must be read in the atomic step", granted.Load(), most, limit.Mode)
		}
	}
}

func conservedUnderConcurrency(s *subject) {
	l := s.limiter(core.PerDay(1000))
	s.grants(l, 500, 500, "half is taken")
	together(func(int) {
		for range 10 {
			if res, err := l.AllowN(s.Context(), key, 3); err != nil || !res.Allowed {
				s.Errorf("AllowN(3): allowed %v, %v", res.Allowed, err)
			}
			if err := l.Refund(s.Context(), key, 3); err != nil {
				s.Errorf("Refund(3): %v", err)
			}
		}
	})
	s.holds(l, 500, "what was taken and refunded must balance")
}

func placesUnderConcurrency(s *subject) {
	l := s.limiter(drop)
	var mu sync.Mutex
	places := make(map[string]bool)
	together(func(int) {
		r, err := l.Reserve(s.Context(), key, 1)
		if err != nil || !r.OK() {
			s.Errorf("Reserve: %v", err)
			return
		}
		mu.Lock()
		defer mu.Unlock()
		places[r.Delay().String()] = true
	})
	if len(places) != goroutines {
		s.Errorf("64 concurrent reservations got %d different delays, want 64", len(places))
	}
}
