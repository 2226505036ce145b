package storetest

import (
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/tokenbucket-go/ratelimit/core"
)

// Decisions on one key are atomic: the store reads the state and the clock, and
// replaces the state, in one step.

const goroutines = 64

// concurrently calls do in 64 goroutines, so often in each, while the clock
// advances by tick whenever it is read. It returns how often do returned true
// for each k below 4.
func (s *subject) concurrently(times int, tick time.Duration, do func(k int) (bool, error)) (count [4]int64) {
	s.clock.run(tick, func() {
		var wg sync.WaitGroup
		for n := range goroutines {
			wg.Go(func() {
				for i := range times {
					k := (n + i) % len(count)
					yes, err := do(k)
					if err != nil {
						s.broken("concurrent requests: %v", err)
						return
					}
					if yes {
						atomic.AddInt64(&count[k], 1)
					}
				}
			})
		}
		wg.Wait()
	})
	return count
}

func exactUnderConcurrency(s *subject) {
	for name, limit := range map[string]core.Limit{"tokens": core.PerDay(1000), "slots": atOnce(1000)} {
		l := s.limiterOf(name, limit)
		count := s.concurrently(25, 0, func(int) (bool, error) {
			res, err := l.Allow(s.Context(), key)
			return res.Allowed, err
		})
		if got := count[0] + count[1] + count[2] + count[3]; got != 1000 {
			s.broken("64 goroutines got %d of 1000 %s", got, name)
		}
	}
}

func refundedUnderConcurrency(s *subject) {
	l := s.limiter(core.PerDay(1000))
	s.take(l, 1000, "a new key")
	s.concurrently(10, 0, func(int) (bool, error) { return true, l.Refund(s.Context(), key, 1) })
	s.left(l, "640 tokens were refunded", 640)
}

// If a store reads the clock outside the atomic step, a decision can come after
// one with a later instant, as if the clock was set back. At a boundary of an
// Aligned limit that gives its tokens again.
func boundedOnRunningClock(s *subject) {
	for _, mode := range []core.Mode{core.Continuous, core.Stepped, core.Aligned} {
		limit := core.Limit{Capacity: 2, RefillRate: 2, RefillInterval: time.Second, Mode: mode}
		l, begin := s.limiterOf(mode.String(), limit), s.clock.Now()
		count := s.concurrently(50, 200*time.Millisecond, func(int) (bool, error) {
			res, err := l.Allow(s.Context(), key)
			return res.Allowed, err
		})
		total := count[0] + count[1] + count[2] + count[3]
		if most := limit.MaxIn(s.clock.Now().Sub(begin)); total > most {
			s.broken("64 goroutines got %d tokens of a limit that is %v, and MaxIn is %d: read the clock in the atomic step",
				total, mode, most)
		}
	}
}

func jointUnderConcurrency(s *subject) {
	s.needsJoint()
	all, each := s.limiterOf("all", core.PerDay(5)), s.limiterOf("each", core.PerDay(2))
	for round := range 10 { // the last token of a key is where most can go wrong
		everyone := strconv.Itoa(round)
		count := s.concurrently(1, 0, func(k int) (bool, error) {
			res, err := core.AllowTogether(s.Context(), core.Charge{Limiter: all, Key: everyone},
				core.Charge{Limiter: each, Key: everyone + "/" + strconv.Itoa(k)})
			return res.Allowed, err
		})
		if total := count[0] + count[1] + count[2] + count[3]; total != 5 {
			s.broken("64 goroutines got %d of 5 tokens of a joint key", total)
		}
		for k, got := range count {
			res, err := each.Peek(s.Context(), everyone+"/"+strconv.Itoa(k))
			s.no(err)
			s.resultLeft(&res, "a key from which as many are taken as granted", 2-got)
		}
	}
}
