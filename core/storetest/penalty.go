package storetest

import (
	"time"

	"github.com/tokenbucket-go/ratelimit/core"
)

// A denial by a limit with a penalty makes a debt, and none that follows
// prolongs it. A request with a floor leaves that.

func penaltyOnce(s *subject) {
	l := s.limiter(core.Per(5, 15*time.Minute).WithPenalty(time.Hour).WithName("tries"), core.PerDay(100).WithName("day"))
	s.take(l, 5, "a new key")
	s.deny(l, 6, core.Never, "more than can ever be there")
	s.left(l, "which makes no debt", 0, 95)
	s.deny(l, 1, time.Hour+3*time.Minute, "the first denial")
	s.clock.move(20 * time.Minute)
	s.deny(l, 1, 43*time.Minute, "20 minutes later")
	s.deny(l, 2, 46*time.Minute, "for a larger cost")
	s.clock.move(43*time.Minute - time.Microsecond)
	if res, err := l.Peek(s.Context(), key); err != nil || res.Remaining != 0 {
		s.broken("a microsecond before: %v, %v", res.Remaining, err)
	}
	s.clock.move(time.Microsecond)
	s.take(l, 1, "the debt is paid, and a token is there")
	s.deny(l, 1, time.Hour+3*time.Minute, "and the next denial is the first again")
	s.no(l.Reset(s.Context(), key))
	s.left(l, "after a reset", 5, 100)

	l = s.limiterOf("stepped", core.PerHour(10).WithMode(core.Stepped).WithPenalty(150*time.Minute))
	s.take(l, 10, "a new key")
	s.clock.move(time.Minute)
	s.deny(l, 1, 3*time.Hour-time.Minute, "two steps pay the debt, and the third brings tokens")
}

func floorIsLeft(s *subject) {
	l := s.limiter(core.PerMinute(60).WithName("minute"), core.PerMinute(600).WithName("tokens").WithUnit(tokens))
	above := func(cost, floor int64, allowed bool, retry time.Duration, when string) {
		s.Helper()
		res, err := l.AllowAbove(s.Context(), key, cost, floor)
		if s.no(err); res.Allowed != allowed || res.RetryAfter != retry {
			s.broken("%s: %d above %d: allowed %v, retry after %v; want %v, %v", when, cost, floor, res.Allowed, res.RetryAfter, allowed, retry)
		}
	}
	above(40, 20, true, 0, "60 are there")
	above(1, 20, false, time.Second, "20 are left")
	above(10, 20, false, 10*time.Second, "20 are left")
	s.left(l, "denials take nothing", 20, 600)
	above(1, 19, true, 0, "20 are left")
	above(1, 60, false, core.Never, "which is never there")
	s.take(l, 19, "others get the rest")
	above(1, 0, false, time.Second, "nothing is left")
	s.clock.move(10 * time.Second)
	above(1, 9, true, 0, "10 are back")

	for _, each := range []struct {
		cost, floor int64
		allowed     bool
		retry       time.Duration
	}{{500, 100, true, 0}, {50, 60, false, time.Second}, {50, 551, false, core.Never}} {
		res, err := core.AllowTogether(s.Context(), core.Charge{Limiter: l, Key: key, Units: core.Units{tokens: each.cost}, Floor: core.Units{tokens: each.floor}})
		if s.no(err); res.Allowed != each.allowed || res.RetryAfter != each.retry {
			s.broken("%d tokens above %d: allowed %v, retry after %v; want %v, %v", each.cost, each.floor, res.Allowed, res.RetryAfter, each.allowed, each.retry)
		}
	}
}
