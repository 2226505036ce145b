package storetest

import (
	"maps"
	"time"

	"github.com/tokenbucket-go/ratelimit/core"
)

// Who waits RetryAfter alone is allowed, and a microsecond earlier he is not.
// After ResetAfter a bucket is full, and a microsecond earlier it is not.

// delays calls check for limits of each mode, and for a bucket in debt.
func (s *subject) delays(check func(l *core.Limiter, limit core.Limit, what string)) {
	limits := maps.Clone(modes)
	limits["a slow"] = core.Limit{Capacity: 3, RefillRate: 1, RefillInterval: 7 * 24 * time.Hour}
	limits["a fast"] = core.Limit{Capacity: 1000, RefillRate: 1e6, RefillInterval: time.Second}
	for name, limit := range limits {
		l := s.limiterOf(name, limit)
		s.take(l, limit.Capacity, name+" limit, which is full")
		check(l, limit, name+" limit")
		debtor := s.limiterOf(name+" in debt", limit)
		s.no(debtor.Debit(s.Context(), key, 2*limit.Capacity-1))
		check(debtor, limit, name+" limit in debt")
	}
}

func retryAfterIsExact(s *subject) {
	s.delays(func(l *core.Limiter, limit core.Limit, what string) {
		for _, cost := range []int64{1, limit.Capacity} {
			res := s.allow(l, cost)
			if res.Allowed || res.RetryAfter < time.Microsecond {
				s.broken("%s: %d of no tokens: allowed %v, retry after %v", what, cost, res.Allowed, res.RetryAfter)
			}
			s.clock.move(res.RetryAfter - time.Microsecond)
			s.deny(l, cost, time.Microsecond, what+", a microsecond before RetryAfter")
			s.clock.move(time.Microsecond)
			s.take(l, cost, what+", after RetryAfter")
		}
	})
}

func resetAfterIsExact(s *subject) {
	s.delays(func(l *core.Limiter, limit core.Limit, what string) {
		s.clock.move(s.allow(l, 0).ResetAfter - time.Microsecond)
		if res := s.allow(l, 0); res.ResetAfter != time.Microsecond || res.Remaining == limit.Capacity {
			s.broken("%s, a microsecond before ResetAfter: %d of %d left, full in %v",
				what, res.Remaining, limit.Capacity, res.ResetAfter)
		}
		s.clock.move(time.Microsecond)
		if res := s.allow(l, 0); res.ResetAfter != 0 || res.Remaining != limit.Capacity {
			s.broken("%s, after ResetAfter: %d of %d left, full in %v", what, res.Remaining, limit.Capacity, res.ResetAfter)
		}
		s.clock.move(1000 * time.Hour)
		s.left(l, what+", much later", limit.Capacity)
	})
}

// keptUntilFull has records of several limits in one key, and holds that outlast
// all of them.
func keptUntilFull(s *subject) {
	second, day := core.PerSecond(10).WithName("second"), core.PerDay(100).WithName("day")
	slots := core.InFlight(5).WithName("slots").WithMaxHold(48 * time.Hour)
	all, fast := s.limiter(second, day, slots), s.limiter(second)
	s.take(all, 5, "a new key")
	s.take(fast, 1, "of the limit that is soon full")
	s.clock.move(12 * time.Minute)
	s.take(fast, 1, "of the limit that is soon full")
	s.clock.move(12 * time.Minute)
	s.left(all, "24 minutes later, in which 1.7 of 5 of the day come back", 10, 96, 0)
	s.clock.move(24 * time.Hour)
	s.left(all, "a day later, in a hold of two days", 10, 100, 0)
}
