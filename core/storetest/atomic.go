package storetest

import (
	"runtime"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/tokenbucket-go/ratelimit/core"
)

// Decisions on one key are atomic: the store reads the state and the clock, and
// replaces the state, in one step.

const goroutines = 64

// concurrently calls do in 64 goroutines, so often in each, and returns how often
// it returned true for each k below 4.
func (s *subject) concurrently(times int, do func(k int) (bool, error)) (count [4]int64) {
	var wg sync.WaitGroup
	var counts [len(count)]atomic.Int64
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
					counts[k].Add(1)
				}
			}
		})
	}
	wg.Wait()
	for k := range counts {
		count[k] = counts[k].Load()
	}
	return count
}

func exactUnderConcurrency(s *subject) {
	l := s.limiter(core.PerDay(100).WithName("day"), core.PerDay(1000).WithName("other"))
	count := s.concurrently(40, func(k int) (bool, error) {
		res, err := l.Allow(s.Context(), key+strconv.Itoa(k))
		return res.Allowed, err
	})
	for _, got := range count {
		if got != 100 {
			s.broken("64 goroutines got %d of 100 tokens of a key", got)
		}
	}
}

func conservedUnderConcurrency(s *subject) {
	l := s.limiter(core.PerDay(1000))
	s.take(l, 500, "a new key")
	s.concurrently(10, func(int) (bool, error) {
		res, err := l.AllowN(s.Context(), key, 3)
		if err == nil && !res.Allowed {
			s.broken("3 of at least 308 tokens are denied")
		}
		if err == nil {
			err = l.Refund(s.Context(), key, 3)
		}
		return true, err
	})
	s.left(l, "all that was taken came back", 500)
}

// If a store reads the clock outside the atomic step, a decision can come after
// one with a later instant, as if the clock was set back. At a boundary of an
// Aligned limit that gives its tokens again.
func boundedOnRunningClock(s *subject) {
	for mode, limit := range modes {
		limit.RefillRate, limit.RefillInterval = 10, 20*time.Millisecond
		if limit.Location != nil {
			continue
		}
		l, begin := s.limiterOf(mode, limit), s.clock.Now()
		s.clock.run(50 * time.Microsecond)
		count := s.concurrently(50, func(int) (bool, error) {
			res, err := l.Allow(s.Context(), key)
			return res.Allowed, err
		})
		s.clock.run(0)
		total := count[0] + count[1] + count[2] + count[3]
		if most := limit.MaxIn(s.clock.Now().Sub(begin)); total > most {
			s.broken("64 goroutines got %d tokens of a %s limit, and MaxIn is %d: read the clock in the atomic step", total, mode, most)
		}
	}
}

func slotsUnderConcurrency(s *subject) {
	l := s.limiter(atOnce(5))
	var inUse atomic.Int64
	s.concurrently(20, func(int) (bool, error) {
		res, err := l.Allow(s.Context(), key)
		if err != nil || !res.Allowed {
			return false, err
		}
		if n := inUse.Add(1); n > 5 {
			s.broken("%d of 5 slots are in use", n)
		}
		runtime.Gosched()
		if err := res.Hold(s.Context()); err != nil {
			s.broken("Hold: %v", err)
		}
		inUse.Add(-1)
		return true, res.Release(s.Context())
	})
	s.left(l, "all were released", 5)
}

func jointUnderConcurrency(s *subject) {
	s.needsJoint()
	all, each := s.limiterOf("all", core.PerDay(200)), s.limiterOf("each", core.PerDay(70))
	count := s.concurrently(10, func(k int) (bool, error) {
		res, err := core.AllowTogether(s.Context(), core.Charge{Limiter: all, Key: key},
			core.Charge{Limiter: each, Key: strconv.Itoa(k)})
		return res.Allowed, err
	})
	total := int64(0)
	for k, got := range count {
		total += got
		res, err := each.Peek(s.Context(), strconv.Itoa(k))
		s.no(err)
		s.resultLeft(&res, "a key from which as many were taken as granted", 70-got)
	}
	if s.left(all, "all are granted", 0); total != 200 {
		s.broken("64 goroutines got %d of 200 tokens of a joint key", total)
	}
}
