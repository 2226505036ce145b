package storetest

import (
	"time"

	"github.com/tokenbucket-go/ratelimit/core"
)

var refillRules = []storeRule{
	{"Continuous tokens drip in evenly", continuousDrips},
	{"Stepped tokens come at once every interval since the first use", steppedSinceFirstUse},
	{"Stepped intervals add up and their remainder counts", steppedIntervalsAddUp},
	{"Aligned tokens come at the boundaries of the clock", alignedAtBoundaries},
	{"Aligned boundaries are those of the Unix clock", alignedToUnixClock},
	{"a bucket never holds more than its capacity", neverAboveCapacity},
	{"a bucket is not forgotten before it is full", notForgottenBeforeFull},
	{"RetryAfter suffices and nothing less does", retryAfterIsExact},
	{"fast, slow and fractional rates hold to the token", extremeRates},
}

func continuousDrips(s *subject) {
	l := s.limiter(core.PerMinute(60))
	s.grants(l, 60, 0, "all of 60 a minute")
	s.clock.move(time.Second - time.Microsecond)
	s.denies(l, 1, 0, time.Microsecond, "a token takes a whole second")
	s.clock.move(time.Microsecond)
	s.grants(l, 1, 0, "a second brings one token")
	s.clock.move(2500 * time.Millisecond)
	s.grants(l, 2, 0, "2.5 seconds bring two")
	s.clock.move(500 * time.Millisecond)
	s.grants(l, 1, 0, "and the half token stays")
}

func steppedSinceFirstUse(s *subject) {
	l := s.limiter(core.PerMinute(10).WithMode(core.Stepped))
	s.grants(l, 4, 6, "first use at half past the minute")
	s.clock.move(20 * time.Second)
	s.grants(l, 6, 0, "a later use does not restart the interval")
	s.clock.move(40*time.Second - time.Microsecond)
	s.denies(l, 1, 0, time.Microsecond, "nothing comes before the interval is over")
	s.clock.move(time.Microsecond)
	s.grants(l, 0, 10, "an interval after the first use all comes at once")
}

func steppedIntervalsAddUp(s *subject) {
	l := s.limiter(core.Limit{Capacity: 10, RefillRate: 2, RefillInterval: time.Minute, Mode: core.Stepped})
	s.grants(l, 10, 0, "all")
	s.clock.move(3*time.Minute + 30*time.Second)
	s.grants(l, 1, 5, "3.5 intervals bring 3 times 2")
	s.clock.move(30*time.Second - time.Microsecond)
	s.holds(l, 5, "the fourth interval is not over")
	s.clock.move(time.Microsecond)
	s.holds(l, 7, "the half interval counted")
}

func alignedAtBoundaries(s *subject) {
	l := s.limiter(core.Limit{Capacity: 10, RefillRate: 4, RefillInterval: time.Minute, Mode: core.Aligned})
	s.grants(l, 10, 0, "all at half past")
	s.denies(l, 1, 0, 30*time.Second, "the next minute begins in 30s")
	s.clock.move(30*time.Second - time.Microsecond)
	s.denies(l, 1, 0, time.Microsecond, "the minute is not over")
	s.clock.move(time.Microsecond)
	s.grants(l, 1, 3, "at :00 the interval's tokens come at once")
	s.clock.move(2*time.Minute - time.Microsecond)
	s.holds(l, 7, "one boundary in just under two minutes from :00")
	s.clock.move(time.Microsecond)
	s.holds(l, 10, "two boundaries, up to the capacity")
}

func alignedToUnixClock(s *subject) {
	day := s.limiterOf("day", core.PerDay(5).WithMode(core.Aligned))
	week := s.limiterOf("week", core.Limit{Capacity: 5, RefillRate: 5, RefillInterval: 7 * 24 * time.Hour, Mode: core.Aligned})
	s.grants(day, 5, 0, "all of the day")
	s.grants(week, 5, 0, "all of the week")
	midnight := time.Date(2026, time.March, 5, 0, 0, 0, 0, time.UTC) // a Thursday
	s.denies(day, 1, 0, midnight.Sub(start), "a day begins at 00:00 UTC")
	s.denies(week, 1, 0, midnight.Sub(start), "a week begins on Thursday, as 1 January 1970 was")
	s.clock.at(midnight)
	s.grants(day, 5, 0, "a new day is full")
	s.grants(week, 5, 0, "a new week is full")
}

func neverAboveCapacity(s *subject) {
	for _, mode := range []core.Mode{core.Continuous, core.Stepped, core.Aligned} {
		l := s.limiterOf(mode.String(), core.PerMinute(10).WithMode(mode))
		s.grants(l, 10, 0, mode.String())
		s.clock.move(1000 * time.Hour)
		s.grants(l, 10, 0, mode.String()+": a long pause fills the bucket to its capacity and no further")
	}
}

func notForgottenBeforeFull(s *subject) {
	l := s.limiter(core.Limit{Capacity: 10, RefillRate: 1, RefillInterval: time.Hour})
	s.grants(l, 10, 0, "all")
	s.clock.move(10*time.Hour - time.Microsecond)
	s.holds(l, 9, "a bucket that was forgotten early would be full")
	s.clock.move(time.Microsecond)
	s.holds(l, 10, "now it is full")
}

func retryAfterIsExact(s *subject) {
	hourly := core.Limit{Name: "hour", Capacity: 50, RefillRate: 17, RefillInterval: time.Hour}
	for name, limits := range map[string][]core.Limit{
		"Continuous": {{Capacity: 17, RefillRate: 17, RefillInterval: 30 * time.Second}},
		"Stepped":    {{Capacity: 17, RefillRate: 3, RefillInterval: 7 * time.Second, Mode: core.Stepped}},
		"Aligned":    {{Capacity: 17, RefillRate: 3, RefillInterval: 7 * time.Second, Mode: core.Aligned}},
		"several":    {core.PerMinute(20).WithName("minute"), hourly, core.PerDay(60).WithName("day").WithMode(core.Aligned)},
	} {
		l := s.limiterOf(name, limits...)
		for _, cost := range []int64{1, 5, 16} {
			res := s.take(l, cost)
			for range 100 {
				if res.Allowed {
					res = s.take(l, cost)
				}
			}
			if res.Allowed || res.RetryAfter < time.Microsecond || res.RetryAfter == core.Never {
				s.Fatalf("%s: an empty bucket asked for %d: allowed %v, retry after %v; want denied, at least 1µs",
					name, cost, res.Allowed, res.RetryAfter)
			}
			s.clock.move(res.RetryAfter - time.Microsecond)
			if early := s.take(l, cost); early.Allowed || early.RetryAfter != time.Microsecond {
				s.Errorf("%s: 1µs before RetryAfter (%v) a request for %d is allowed %v, retry after %v; want denied, 1µs",
					name, res.RetryAfter, cost, early.Allowed, early.RetryAfter)
			}
			s.clock.move(time.Microsecond)
			if !s.take(l, cost).Allowed {
				s.Errorf("%s: after RetryAfter (%v) a request for %d must be allowed", name, res.RetryAfter, cost)
			}
		}
	}
}

func extremeRates(s *subject) {
	for _, c := range []struct {
		name  string
		limit core.Limit
		token time.Duration // in which one comes back
	}{
		{"a million a second", core.Limit{Capacity: 1000, RefillRate: 1e6, RefillInterval: time.Second}, time.Microsecond},
		{"one a week", core.Limit{Capacity: 3, RefillRate: 1, RefillInterval: 7 * 24 * time.Hour}, 7 * 24 * time.Hour},
		{"a tenth a second", core.PerSecond(0.1), 10 * time.Second},
		{"17 in 30 seconds", core.Limit{Capacity: 17, RefillRate: 17, RefillInterval: 30 * time.Second}, 1_764_706 * time.Microsecond},
	} {
		l := s.limiterOf(c.name, c.limit)
		s.grants(l, c.limit.Capacity, 0, c.name)
		s.denies(l, 1, 0, c.token, c.name+": a token comes back after its part of the interval, rounded up to 1µs")
		s.clock.move(c.token - time.Microsecond)
		s.denies(l, 1, 0, time.Microsecond, c.name+": not 1µs earlier")
		s.clock.move(time.Microsecond)
		s.grants(l, 1, 0, c.name+": and then it is there")
	}
}
