package storetest

import (
	"errors"
	"sync/atomic"
	"time"

	"github.com/tokenbucket-go/ratelimit/core"
)

var estimateRules = []storeRule{
	{"an estimate that is not settled comes back after MaxHold, once", estimateComesBack},
	{"without MaxHold an estimate stays charged", estimateStays},
	{"an estimate that is settled in time is corrected", estimateSettled},
	{"an estimate that is settled late is charged in full", estimateSettledLate},
	{"an estimate that is held stays taken for another MaxHold", estimateHeld},
	{"an estimate comes back to a bucket that refills, and no further than its capacity", estimateRefills},
	{"a clock that steps back leaves estimates their remaining time", estimateBackwards},
	{"an estimate is found under another definition of its limit", estimateRedefined},
	{"at rest every definition has its capacity less what was used", usedAtRest},
	{"concurrent requests can't pass an estimate by", estimateUnderConcurrency},
}

// estimated is n tokens of a limit, and n more in a month, of which requests
// take estimates.
func estimated(n int) core.Limit {
	return core.PerMonth(n).WithName("tokens").WithUnit(tokens).WithMaxHold(time.Minute)
}

// estimate takes n tokens, which must be there, and no request.
func (s *subject) estimate(l *core.Limiter, n int64, rule string) *core.Result {
	s.Helper()
	res := s.units(l, core.Units{core.Requests: 0, tokens: n})
	if !res.Allowed {
		s.Errorf("%s: %d tokens are denied, want allowed", rule, n)
	}
	return &res
}

func estimateComesBack(s *subject) {
	l := s.limiter(estimated(1000))
	s.estimate(l, 600, "an estimate")
	s.clock.move(30 * time.Second)
	s.estimate(l, 300, "another")
	if res := s.units(l, core.Units{core.Requests: 0, tokens: 200}); res.Allowed || res.RetryAfter != 30*time.Second {
		s.Errorf("200 of 100 tokens: allowed %v, retry after %v; want denied until an estimate may come back, in 30s", res.Allowed, res.RetryAfter)
	}
	s.clock.move(30*time.Second - time.Microsecond)
	s.have(l, "a microsecond before MaxHold is over", 100)
	s.clock.move(time.Microsecond)
	s.have(l, "an estimate of a process that died, after MaxHold", 700)
	s.clock.move(30 * time.Second)
	s.have(l, "and the other one", 1000)
	s.clock.move(time.Hour)
	s.have(l, "each comes back once", 1000)
	s.estimate(l, 1000, "all")
	s.have(l, "no more than the capacity", 0)
}

func estimateStays(s *subject) {
	l := s.limiter(core.PerMonth(1000).WithName("tokens").WithUnit(tokens))
	s.estimate(l, 600, "an estimate")
	s.clock.move(24 * time.Hour)
	s.have(l, "the default is that it stays charged", 400)
}

func estimateSettled(s *subject) {
	l := s.limiter(estimated(1000))
	res := s.estimate(l, 600, "an estimate")
	s.clock.move(59 * time.Second)
	s.no(res.Settle(s.Context(), core.Units{tokens: 150}))
	s.have(l, "150 of 600 were used", 850)
	s.clock.move(time.Hour)
	s.have(l, "what was settled does not come back", 850)
	res = s.estimate(l, 100, "an estimate that is too low")
	s.no(res.Settle(s.Context(), core.Units{tokens: 450}))
	s.have(l, "450 were used instead of 100", 400)
	res = s.estimate(l, 300, "one that is right")
	s.no(res.Settle(s.Context(), nil))
	s.clock.move(time.Hour)
	s.have(l, "a settlement that gives no number keeps the estimate for good", 100)
	if err := res.Settle(s.Context(), core.Units{tokens: 0}); !errors.Is(err, core.ErrSettled) {
		s.Errorf("Settle again: %v, want ErrSettled", err)
	}
}

func estimateSettledLate(s *subject) {
	l := s.limiter(estimated(1000))
	res := s.estimate(l, 600, "an estimate")
	s.clock.move(time.Hour)
	s.have(l, "it has come back", 1000)
	s.no(res.Settle(s.Context(), core.Units{tokens: 450}))
	s.have(l, "a late settlement charges all that was used", 550)
	res = s.estimate(l, 550, "an estimate of all")
	s.clock.move(time.Minute)
	s.estimate(l, 500, "which others take when it has come back")
	s.no(res.Settle(s.Context(), core.Units{tokens: 550}))
	if late := s.units(l, core.Units{core.Requests: 0, tokens: 1}); late.Allowed {
		s.Error("500 tokens are estimated and 1,000 are used, of 1,000: one more is allowed")
	}
	s.clock.move(time.Minute)
	s.have(l, "the debt is paid by the other estimate, which comes back", 0)
}

func estimateHeld(s *subject) {
	l := s.limiter(estimated(1000))
	res := s.estimate(l, 600, "an estimate")
	for range 3 {
		s.clock.move(45 * time.Second)
		s.no(res.Hold(s.Context()))
		s.have(l, "an estimate that is held", 400)
	}
	s.clock.move(time.Minute)
	s.have(l, "a MaxHold after the last Hold", 1000)
	s.no(res.Hold(s.Context()))
	s.have(l, "Hold takes an estimate again that has come back", 400)
	s.clock.move(time.Minute)
	s.estimate(l, 500, "others take it")
	if err := res.Hold(s.Context()); !errors.Is(err, core.ErrExpired) {
		s.Errorf("Hold of an estimate that others have taken: %v, want ErrExpired", err)
	}
	s.have(l, "a Hold that fails takes nothing", 500)
	s.no(res.Settle(s.Context(), core.Units{tokens: 200}))
	s.have(l, "and what was used is charged all the same", 300)
	if err := res.Hold(s.Context()); !errors.Is(err, core.ErrSettled) {
		s.Errorf("Hold after Settle: %v, want ErrSettled", err)
	}
}

// estimateRefills: while an estimate is out, the bucket refills up to what it
// leaves room for.
func estimateRefills(s *subject) {
	l := s.limiter(core.PerMinute(600).WithName("tokens").WithUnit(tokens).WithMaxHold(time.Minute))
	s.estimate(l, 500, "an estimate")
	s.clock.move(time.Second)
	s.have(l, "100 tokens are left of 600 while 500 are out", 100)
	s.estimate(l, 60, "another")
	s.clock.move(2 * time.Second)
	s.have(l, "20 come back in 2 seconds, to 40", 40)
	s.clock.move(57 * time.Second)
	s.have(l, "the first estimate comes back", 540)
	s.clock.move(time.Minute)
	s.have(l, "the bucket is full, and no more", 600)
}

func estimateBackwards(s *subject) {
	l := s.limiter(core.Per(1000, 720*time.Hour).WithName("tokens").WithUnit(tokens).WithMaxHold(time.Minute).WithMode(core.Stepped))
	s.estimate(l, 600, "an estimate")
	s.clock.move(20 * time.Second)
	second := s.estimate(l, 100, "another")
	s.clock.move(-time.Hour)
	s.estimate(l, 100, "by a clock that is behind")
	s.clock.move(40*time.Second - time.Microsecond)
	s.have(l, "before MaxHold is over nothing comes back", 200)
	s.clock.move(time.Microsecond)
	s.have(l, "the first comes back after 60 seconds, whatever the clock showed", 800)
	s.no(second.Settle(s.Context(), core.Units{tokens: 30}))
	s.have(l, "a settlement finds an estimate whose end a clock has moved", 870)
}

func estimateRedefined(s *subject) {
	l := s.limiter(estimated(1000))
	set := func(limit core.Limit) {
		s.Helper()
		s.no(l.SetPolicy(core.Policy{Name: "api", Limits: []core.Limit{limit}, OnFailure: core.FailClosed}))
	}
	first, second := s.estimate(l, 300, "an estimate"), s.estimate(l, 200, "another")
	s.estimate(l, 100, "of a process that dies")
	set(estimated(2000).WithMaxHold(time.Second))
	s.have(l, "600 are out under a higher capacity", 1400)
	s.no(first.Settle(s.Context(), core.Units{tokens: 100}))
	s.have(l, "100 of 300 were used", 1600)
	s.no(second.Settle(s.Context(), core.Units{tokens: 250}))
	s.have(l, "250 of 200 were used", 1550)
	s.clock.move(time.Minute)
	s.have(l, "and one of a process that died comes back", 1650)
}

// estimateUnderConcurrency is a gateway to a language model: many requests at
// once estimate what they may take, and settle what they took. A gateway that
// charges afterwards admits all that come before the first charge.
func estimateUnderConcurrency(s *subject) {
	const capacity, each = 10_000, 400
	l := s.limiter(estimated(capacity))
	var taken, admitted atomic.Int64
	together(func(n int) {
		for i := range 4 {
			res, err := l.AllowUnits(s.Context(), key, core.Units{core.Requests: 0, tokens: each})
			if err != nil {
				s.Errorf("AllowUnits: %v", err)
				return
			}
			if !res.Allowed {
				continue
			}
			admitted.Add(1)
			if n := taken.Add(each); n > capacity {
				s.Errorf("%d tokens of %d are used or at work: what is estimated must be taken before the work begins", n, capacity)
			}
			actual := int64(each) * int64((n+i)%4+1) / 4
			taken.Add(actual - each)
			if err := res.Settle(s.Context(), core.Units{tokens: actual}); err != nil {
				s.Errorf("Settle: %v", err)
			}
		}
	})
	s.have(l, "what is left is what was not used", capacity-taken.Load())
	if admitted.Load() < capacity/each {
		s.Errorf("premise: %d requests were admitted, want at least %d", admitted.Load(), capacity/each)
	}
}

// usedAtRest: whoever held what under which definition, when nothing is held
// each definition has its Capacity less what was used.
func usedAtRest(s *subject) {
	month := func(policy string, n int) *core.Limiter { return s.limiterOf(policy, estimated(n)) }
	a, b := month("short", 26), month("short", 20)
	s.estimate(a, 8, "8 of 26, whose holder dies")
	s.clock.move(2 * time.Minute)
	s.estimate(b, 8, "8 of 20, whose holder dies too")
	s.clock.move(2 * time.Minute)
	s.have(a, "nothing was used", 26)
	s.have(b, "nothing was used, under either definition", 20)

	policy, override, low := month("budget", 20_000), month("budget", 26_000), month("budget", 3000)
	settled := func(l *core.Limiter, estimate int64, used int64) {
		s.Helper()
		s.no(s.estimate(l, estimate, "a call").Settle(s.Context(), core.Units{tokens: used}))
	}
	settled(policy, 3000, 1000)
	s.estimate(policy, 9000, "a call that dies")
	s.estimate(policy, 9000, "another one")
	s.clock.move(2 * time.Minute)
	s.have(policy, "what dead calls held is back: 1,000 are used", 19_000)
	settled(override, 4000, 1000)
	s.have(override, "2,000 are used, of 26,000", 24_000)
	s.have(policy, "and of 20,000 when the override ends", 18_000)

	late := s.estimate(override, 9000, "a call that settles late")
	s.estimate(override, 5000, "one that dies")
	s.have(low, "nothing is left of 3,000 while 14,000 are held", 0)
	s.clock.move(30 * time.Second)
	s.no(late.Settle(s.Context(), core.Units{tokens: 500}))
	s.clock.move(2 * time.Minute)
	s.have(low, "2,500 are used, whoever took them and under which definition", 500)
	s.have(policy, "2,500 are used of 20,000", 17_500)
	settled(policy, 12_000, 12_000)
	if res := s.units(low, core.Units{core.Requests: 0, tokens: 100}); res.Allowed {
		s.Errorf("14,500 are used, and 100 of 3,000 are allowed")
	}
	s.no(override.RefundUnits(s.Context(), key, core.Units{tokens: 12_000}))
	s.have(low, "what was given back counts under a lower capacity too: 2,500 are used", 500)
	s.have(override, "and under a higher one", 23_500)
}
