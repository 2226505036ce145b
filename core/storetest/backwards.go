package storetest

import (
	"errors"
	"time"

	"github.com/tokenbucket-go/ratelimit/core"
)

var clockRules = []storeRule{
	{"a clock that steps back takes no tokens away", stepBackKeepsTokens},
	{"a clock that steps back gives no tokens", stepBackGivesNothing},
	{"a clock that steps back never stalls a bucket", stepBackNeverStalls},
	{"tokens reserved at once are used, also when the clock steps back", stepBackAfterReserving},
}

var modes = []core.Mode{core.Continuous, core.Stepped, core.Aligned}

func stepBackKeepsTokens(s *subject) {
	for _, mode := range modes {
		l := s.limiterOf(mode.String(), core.PerMinute(10).WithMode(mode))
		s.grants(l, 4, 6, mode.String())
		s.clock.move(-time.Hour)
		s.holds(l, 6, mode.String()+": tokens survive a clock that steps back an hour")
		s.grants(l, 6, 0, mode.String()+": and may be taken")
	}
}

func stepBackGivesNothing(s *subject) {
	for _, mode := range modes {
		l := s.limiterOf(mode.String(), core.PerMinute(10).WithMode(mode))
		s.grants(l, 10, 0, mode.String())
		for range 5 {
			s.clock.move(-10 * time.Hour)
			if res := s.take(l, 1); res.Allowed || res.Remaining != 0 {
				s.Errorf("%v: after the clock stepped back an empty bucket is allowed %v, %d left; want denied, 0 left",
					mode, res.Allowed, res.Remaining)
			}
		}
	}
}

func stepBackNeverStalls(s *subject) {
	for _, mode := range modes {
		l := s.limiterOf(mode.String(), core.PerMinute(10).WithMode(mode))
		s.grants(l, 10, 0, mode.String())
		s.clock.move(-time.Hour)
		res := s.take(l, 1)
		if res.Allowed || res.RetryAfter > 2*time.Minute { // the step in which the clock is now may have counted
			s.Errorf("%v: an hour back, the next token comes in %v; want within two minutes", mode, res.RetryAfter)
			continue
		}
		s.clock.move(res.RetryAfter)
		if !s.take(l, 1).Allowed {
			s.Errorf("%v: tokens must come back at once after a step back, not when the old time is reached again: "+
				"the instant of the step must be stored even though the request is denied", mode)
		}
	}
}

func stepBackAfterReserving(s *subject) {
	for _, mode := range modes {
		s.clock.at(start.Add(time.Minute).Truncate(time.Minute)) // an Aligned limit refills here
		l := s.limiterOf(mode.String(), core.Limit{Capacity: 2, RefillRate: 1, RefillInterval: time.Minute, Mode: mode})
		r, err := l.Reserve(s.Context(), key, 2)
		s.no(err)
		if r.Delay() != 0 {
			s.Fatalf("%v: a reservation of all tokens of a full bucket waits for %v", mode, r.Delay())
		}
		s.clock.move(-time.Second)
		s.take(l, 2) // notes the step
		s.clock.move(time.Second)
		res := s.take(l, 2)
		s.clock.move(res.ResetAfter)
		s.holds(l, 2, mode.String()+": a bucket is full after its ResetAfter, though tokens were reserved at once before the clock stepped back")
	}
}

var rangeRules = []storeRule{
	{"a clock before 1970 or after 17 September 2112 is ErrClock", clockOutOfRange},
	{"all limits work at both ends of the clock's range", clockAtTheEnds},
	{"a clock that comes back into its range finds the bucket as it was", clockComesBack},
}

var (
	earliest = time.Unix(0, 0).UTC()
	latest   = time.UnixMicro(1 << 52).UTC()
)

// anyLimits are limits of every mode and calendar.
func anyLimits() map[string]core.Limit {
	limits := map[string]core.Limit{
		"months": core.PerMonth(10), "weeks": core.PerWeek(10), "days": core.PerDay(10).In(time.FixedZone("UTC-11", -11*60*60)),
		"weeks of a place":  core.PerWeek(10).In(time.FixedZone("UTC+13", 13*60*60)),
		"months from a day": core.PerMonth(10).Anchored(time.Date(2024, time.May, 31, 9, 30, 0, 0, time.UTC)),
		"years":             {Capacity: 10, RefillRate: 10, RefillInterval: 12 * core.Month, Mode: core.Aligned},
	}
	for _, mode := range modes {
		limits["seconds, "+mode.String()] = core.PerSecond(10).WithMode(mode)
		limits["hours, "+mode.String()] = core.PerHour(10).WithMode(mode)
		limits["years, "+mode.String()] = core.Limit{Capacity: 10, RefillRate: 1, RefillInterval: 365 * 24 * time.Hour, Mode: mode}
	}
	return limits
}

func clockOutOfRange(s *subject) {
	for name, limit := range anyLimits() {
		s.clock.at(start)
		l, other := s.limiterOf(name, limit), s.limiterOf("other", core.PerDay(100))
		s.grants(l, 10, 0, name)
		s.take(l, 1) // a denial, which a store may remember
		for _, at := range []time.Time{
			{}, earliest.Add(-time.Microsecond), latest.Add(time.Microsecond), time.Date(1, 1, 1, 0, 0, 0, 1, time.UTC),
			time.Date(9999, 12, 31, 0, 0, 0, 0, time.UTC), time.Date(-300_000, 1, 1, 0, 0, 0, 0, time.UTC),
			time.Date(300_000, 1, 1, 0, 0, 0, 0, time.UTC), time.Unix(1<<62, 0), time.Unix(-1<<62, 0),
		} {
			s.clock.at(at)
			_, err := l.Allow(s.Context(), key)
			_, reserve := l.Reserve(s.Context(), key, 1)
			_, joint := core.AllowTogether(s.Context(), core.Charge{Limiter: l, Key: key}, core.Charge{Limiter: other, Key: key})
			for call, err := range map[string]error{"Allow": err, "Reserve": reserve, "AllowTogether": joint, "Debit": l.Debit(s.Context(), key, 1)} {
				if !errors.Is(err, core.ErrClock) {
					s.Errorf("%s: %s at Unix second %d is %v, want ErrClock", name, call, at.Unix(), err)
				}
			}
		}
	}
}

func clockAtTheEnds(s *subject) {
	for name, limit := range anyLimits() {
		for _, at := range []time.Time{
			earliest, earliest.Add(time.Microsecond), earliest.Add(36 * time.Hour), earliest.Add(20 * 24 * time.Hour),
			latest.Add(-20 * 24 * time.Hour), latest.Add(-time.Second), latest,
		} {
			s.clock.at(at)
			l := s.limiterOf(name, limit, core.PerMonth(1000).WithName("untouched").WithUnit(tokens))
			s.no(l.Reset(s.Context(), key))
			rule := name + " at " + at.Format(time.RFC3339Nano)
			for left := int64(9); left >= 6; left-- {
				if res := s.units(l, core.Units{tokens: 0}); !res.Allowed || res.Limits()[0].Remaining != left {
					s.Errorf("%s: allowed %v with %d left; want %d", rule, res.Allowed, res.Limits()[0].Remaining, left)
				}
			}
			s.no(l.Debit(s.Context(), key, 20))
			if res := s.take(l, 1); res.Allowed || res.RetryAfter <= 0 || res.ResetAfter < res.RetryAfter {
				s.Errorf("%s: in debt: allowed %v, retry after %v, reset after %v", rule, res.Allowed, res.RetryAfter, res.ResetAfter)
			}
			s.no(l.Refund(s.Context(), key, 24))
			if res := s.take(l, 0); res.Limits()[0].Remaining != 10 {
				s.Errorf("%s: %d left after all came back, want 10", rule, res.Limits()[0].Remaining)
			}
			s.take(l, 10)
			r, err := l.Reserve(s.Context(), key, 1)
			s.no(err)
			if !r.OK() || r.Delay() <= 0 {
				s.Errorf("%s: a reservation of an empty bucket: OK %v, delay %v", rule, r.OK(), r.Delay())
			}
			s.no(r.Cancel(s.Context()))
			if at.After(earliest.Add(time.Hour)) {
				s.clock.move(-time.Hour) // perhaps into a period that began before 1970
				s.take(l, 1)
			}
		}
	}
}

func clockComesBack(s *subject) {
	for name, limit := range anyLimits() {
		s.clock.at(start)
		l := s.limiterOf(name, limit)
		s.grants(l, 4, 6, name)
		for _, at := range []time.Time{{}, earliest.Add(-time.Microsecond)} { // a later one may expire keys
			s.clock.at(at)
			if _, err := l.Allow(s.Context(), key); err == nil {
				s.Errorf("%s: a decision at %v", name, at)
			}
		}
		s.clock.at(start)
		s.holds(l, 6, name+": after a clock that was out of range for a while")
	}
}
