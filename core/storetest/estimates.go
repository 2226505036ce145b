package storetest

import (
	"time"

	"github.com/tokenbucket-go/ratelimit/core"
)

// An estimate comes back as far as it was not used when it is settled, or after
// MaxHold.

// estimated is tokens of a month of which requests take estimates.
var estimated = core.PerMonth(1000).WithName("tokens").WithUnit(tokens).WithMaxHold(time.Minute)

// estimate takes n tokens, which must be there, and no request.
func (s *subject) estimate(l *core.Limiter, n int64, when string) *core.Result {
	s.Helper()
	res := s.units(l, core.Units{core.Requests: 0, tokens: n})
	if !res.Allowed {
		s.broken("%s: an estimate of %d is denied, want allowed", when, n)
	}
	return res
}

func estimateComesBack(s *subject) {
	l := s.limiter(estimated)
	s.estimate(l, 600, "a new key")
	s.clock.move(30 * time.Second)
	held := s.estimate(l, 300, "400 are left")
	if res := s.units(l, core.Units{tokens: 200}); res.Allowed || res.RetryAfter != 30*time.Second {
		s.broken("200 of 100 tokens: allowed %v, retry after %v; want denied, 30s", res.Allowed, res.RetryAfter)
	}
	s.clock.move(30*time.Second - time.Microsecond)
	s.left(l, "a microsecond before MaxHold is over", 100)
	s.clock.move(time.Microsecond)
	s.left(l, "MaxHold is over", 700)
	s.no(held.Hold(s.Context()))
	s.clock.move(time.Minute - time.Microsecond)
	s.left(l, "Hold keeps an estimate", 700)
	s.clock.move(time.Hour)
	s.left(l, "each comes back once", 1000)
}

func settlementCharges(s *subject) {
	l := s.limiter(atOnce(3), core.PerDay(10).WithName("day"), estimated)
	res := s.units(l, core.Units{tokens: 400})
	s.no(res.Settle(s.Context(), core.Units{tokens: 150}))
	s.left(l, "150 of 400 were used, and the slot is in use", 2, 9, 850)
	s.no(res.Hold(s.Context()))
	s.no(res.Release(s.Context()))
	s.left(l, "a release leaves the tokens charged", 3, 9, 850)
	res = s.units(l, core.Units{tokens: 400})
	s.no(res.Release(s.Context()))
	s.clock.move(45 * time.Second)
	s.no(res.Hold(s.Context()))
	s.clock.move(45 * time.Second)
	s.left(l, "a release leaves the estimate, and Hold holds it alone", 3, 8, 450)
	s.no(res.Settle(s.Context(), core.Units{tokens: 500}))
	s.left(l, "500 were used instead of 400", 3, 8, 350)
	res = s.units(l, core.Units{tokens: 350})
	s.clock.move(time.Minute)
	s.left(l, "MaxHold is over", 3, 7, 350)
	s.no(res.Settle(s.Context(), core.Units{tokens: 40}))
	s.left(l, "a settlement after MaxHold charges what was used", 3, 7, 310)
}
