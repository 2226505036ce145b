package storetest

import (
	"errors"
	"time"

	"github.com/tokenbucket-go/ratelimit/core"
	"github.com/tokenbucket-go/ratelimit/core/store"
)

// If the clock was set back, nothing refills for the time between, and nothing
// is lost. The store must keep what Decide returns for a denied request too.

func setBackChangesNothing(s *subject) {
	for mode, limit := range modes {
		l := s.limiterOf(mode, limit)
		s.take(l, 10, "a new key")
		s.clock.move(-time.Hour)
		s.left(l, mode+" limit, an hour back", 7)
		s.take(l, 7, mode+" limit, an hour back")
		s.clock.move(-time.Hour)
		res := s.allow(l, 1)
		if res.Allowed || res.RetryAfter > 2*limit.RefillInterval { // the step in which the clock is may have counted
			s.broken("%s limit, two hours back: allowed %v, retry after %v, want denied", mode, res.Allowed, res.RetryAfter)
		}
		s.clock.move(res.RetryAfter)
		s.take(l, 1, mode+" limit, two hours back, after RetryAfter")
	}
}

func setBackKeepsHolds(s *subject) {
	l := s.limiter(atOnce(3), core.PerDay(100).WithName("day"))
	s.take(l, 1, "a first slot")
	s.clock.move(40 * time.Second)
	second := s.take(l, 1, "a second one")
	s.clock.move(-24 * time.Hour)
	s.take(l, 1, "a third one, a day back")
	s.deny(l, 1, 20*time.Second, "20 seconds before the first ends")
	s.clock.move(20 * time.Second)
	s.left(l, "after the first MaxHold", 1, 97)
	s.no(second.Release(s.Context()))
	s.left(l, "after the second was released", 2, 97)
}

// periodsByTheClock asks in two years, of which the process that runs the test
// is far from one at least.
func periodsByTheClock(s *subject) {
	for name, each := range map[string]struct {
		limit core.Limit
		ends  []time.Time
	}{
		"month": {core.PerMonth(10), []time.Time{
			time.Date(2026, time.April, 1, 0, 0, 0, 0, time.UTC), time.Date(2032, time.March, 1, 0, 0, 0, 0, time.UTC),
		}},
		"day of UTC+7": {core.PerDay(10).In(time.FixedZone("UTC+7", 7*60*60)), []time.Time{
			time.Date(2026, time.March, 4, 17, 0, 0, 0, time.UTC), time.Date(2032, time.March, 4, 17, 0, 0, 0, time.UTC),
		}},
	} {
		l := s.limiterOf(name, each.limit)
		for _, end := range each.ends {
			s.clock.at(end.Add(-time.Hour))
			s.take(l, 10, "a full "+name)
			s.deny(l, 1, time.Hour, "an hour before the next "+name)
			s.clock.at(end.Add(-time.Microsecond))
			s.deny(l, 1, time.Microsecond, "a microsecond before the next "+name)
			s.clock.at(end)
			s.take(l, 10, "in the next "+name)
			s.clock.at(end.Add(time.Hour))
			if s.allow(l, 1).Allowed {
				s.broken("a %s gives its tokens twice", name)
			}
		}
	}
}

func clockOutOfRange(s *subject) {
	l, other := s.limiter(core.PerDay(10)), s.limiterOf("other", core.PerDay(10))
	earliest, latest := time.Unix(0, 0), time.UnixMicro(1<<52)
	for _, at := range []time.Time{earliest, latest} {
		s.clock.at(at)
		s.no(l.Reset(s.Context(), key))
		s.take(l, 10, "at an end of the clock's range")
		s.deny(l, 1, 144*time.Minute, "at an end of the clock's range")
	}
	s.clock.at(start)
	s.no(l.Reset(s.Context(), key))
	s.take(l, 4, "a new key")
	outside := func(times ...time.Time) {
		for _, at := range times {
			s.clock.at(at)
			_, allow := l.AllowN(s.Context(), key, 3)
			_, joint := core.AllowTogether(s.Context(),
				core.Charge{Limiter: l, Key: key}, core.Charge{Limiter: other, Key: key})
			for _, err := range []error{allow, joint, l.Refund(s.Context(), key, 3)} {
				if !errors.Is(err, store.ErrClock) {
					s.broken("at %v: the error is %v, want ErrClock", at, err)
				}
			}
		}
	}
	outside(time.Time{}, earliest.Add(-time.Microsecond))
	s.clock.at(start)
	s.left(l, "when the clock is back", 6)
	outside(latest.Add(time.Microsecond), time.Unix(1<<62, 0)) // at which keys may expire
}
