package storetest

import (
	"errors"
	"time"

	"github.com/tokenbucket-go/ratelimit/core"
)

var unitRules = []storeRule{
	{"units are taken from the limits that count them", unitsApart},
	{"of several units all are taken or none", unitsAllOrNothing},
	{"as much as is there is taken", atMostTakesWhatIsThere},
	{"a debit charges what is not there", debitMakesDebt},
	{"a peek of units says what a request would get, and takes nothing", unitsPeekTakesNothing},
	{"units come back to the limits that count them", unitsComeBack},
	{"a settlement returns what was too much", settlementReturns},
	{"a settlement charges what was too little", settlementCharges},
}

// tokens is the unit of half of the rules' limits.
const tokens = "tokens"

func (s *subject) requestsAndTokens() *core.Limiter {
	return s.limiter(core.PerMinute(10).WithName("requests"), core.PerMinute(600).WithName("tokens").WithUnit(tokens))
}

// units takes units of key.
func (s *subject) units(l *core.Limiter, units core.Units) core.Result {
	s.Helper()
	res, err := l.AllowUnits(s.Context(), key, units)
	if err != nil {
		s.Fatalf("AllowUnits(%v): %v", units, err)
	}
	return res
}

// have checks how many tokens each of the limits of key has.
func (s *subject) have(l *core.Limiter, rule string, left ...int64) {
	s.Helper()
	for i, limit := range s.take(l, 0).Limits() {
		if limit.Remaining != left[i] {
			s.Errorf("%s: the limit %q has %d left, want %d", rule, limit.Limit.Name, limit.Remaining, left[i])
		}
	}
}

func unitsApart(s *subject) {
	l := s.requestsAndTokens()
	if res := s.units(l, core.Units{tokens: 200}); !res.Allowed || res.Cost != 1 {
		s.Errorf("200 of 600 tokens: allowed %v, as %d requests; want allowed as 1", res.Allowed, res.Cost)
	}
	s.have(l, "1 request of 200 tokens", 9, 400)
	s.units(l, core.Units{core.Requests: 0, tokens: 100})
	s.have(l, "100 tokens alone", 9, 300)
	s.take(l, 4)
	s.have(l, "4 requests alone", 5, 300)
	if _, err := l.AllowUnits(s.Context(), key, core.Units{"bytes": 1}); !errors.Is(err, core.ErrUnit) {
		s.Errorf("a unit that no limit counts: %v, want ErrUnit", err)
	}
	s.no(l.Refund(s.Context(), key, 2))
	s.have(l, "a refund of requests", 7, 300)
}

func unitsAllOrNothing(s *subject) {
	l := s.requestsAndTokens()
	s.units(l, core.Units{tokens: 500})
	for range 3 {
		res := s.units(l, core.Units{tokens: 130})
		if res.Allowed || res.RetryAfter != 3*time.Second {
			s.Errorf("130 tokens of 100, which refill at 10 a second: allowed %v, retry after %v; want denied, 3s", res.Allowed, res.RetryAfter)
		}
	}
	s.have(l, "a denial by the tokens takes no request", 9, 100)
	s.clock.move(3 * time.Second)
	if !s.units(l, core.Units{tokens: 130}).Allowed {
		s.Error("after RetryAfter the units must be there")
	}
	s.take(l, 8)
	if s.units(l, core.Units{tokens: 0}).Allowed {
		s.Error("a request that finds no requests left must be denied")
	}
	s.have(l, "a denial by the requests takes no tokens", 0, 0)
}

func atMostTakesWhatIsThere(s *subject) {
	l := s.limiter(core.PerMinute(10))
	for _, step := range []struct{ most, got int64 }{{4, 4}, {9, 6}, {3, 0}} {
		res, err := l.AllowAtMost(s.Context(), key, step.most)
		s.no(err)
		if res.Cost != step.got || res.Allowed != (step.got > 0) {
			s.Errorf("AllowAtMost(%d) got %d, allowed %v; want %d", step.most, res.Cost, res.Allowed, step.got)
		}
		if !res.Allowed && res.RetryAfter != 6*time.Second {
			s.Errorf("the next token comes after %v, want 6s", res.RetryAfter)
		}
	}
	s.denies(l, 1, 0, 6*time.Second, "a denial of AllowAtMost takes nothing")
}

func debitMakesDebt(s *subject) {
	l := s.limiter(core.PerMinute(10))
	s.no(l.Debit(s.Context(), key, 4))
	s.holds(l, 6, "a debit of 4")
	s.no(l.Debit(s.Context(), key, 11))
	s.denies(l, 0, 0, 30*time.Second, "a debt of 5 denies a cost of 0 until it is paid")
	s.denies(l, 1, 0, 36*time.Second, "a debt of 5 and one token take 36 seconds")
	s.clock.move(36 * time.Second)
	s.grants(l, 1, 0, "a debt ends")
	if res := s.take(l, 0); res.ResetAfter != time.Minute {
		s.Errorf("after a debt the bucket is full in %v, want 1m", res.ResetAfter)
	}
}

func settlementReturns(s *subject) {
	l := s.requestsAndTokens()
	res := s.units(l, core.Units{tokens: 500})
	s.no(res.Settle(s.Context(), core.Units{tokens: 120}))
	s.have(l, "120 of 500 tokens were used", 9, 480)
	denied := s.units(l, core.Units{tokens: 500})
	s.no(denied.Settle(s.Context(), core.Units{tokens: 0}))
	s.have(l, "a denial took nothing that can come back", 9, 480)
}

func settlementCharges(s *subject) {
	l := s.requestsAndTokens()
	res := s.units(l, core.Units{tokens: 500})
	s.no(res.Settle(s.Context(), core.Units{tokens: 700}))
	res = s.units(l, core.Units{tokens: 50})
	if res.Allowed || res.RetryAfter != 15*time.Second {
		s.Errorf("a debt of 100 and 50 tokens: allowed %v, retry after %v; want denied, 15s", res.Allowed, res.RetryAfter)
	}
	s.clock.move(15 * time.Second)
	if !s.units(l, core.Units{tokens: 50}).Allowed {
		s.Error("a debt ends")
	}
}

func unitsPeekTakesNothing(s *subject) {
	l := s.limiter(core.PerMinute(10).WithName("requests"), core.PerMinute(600).WithName("tokens").WithUnit(tokens), core.InFlight(2).WithName("slots"))
	peek := func(rule string, units core.Units, allowed bool) core.Result {
		res, err := l.PeekUnits(s.Context(), key, units)
		if err != nil || res.Allowed != allowed {
			s.Errorf("%s: allowed %v, %v; want %v", rule, res.Allowed, err, allowed)
		}
		if err := res.Undo(s.Context()); err != nil {
			s.Errorf("%s: Undo of a peek: %v", rule, err)
		}
		return res
	}
	peek("a peek of a bucket that was never used", nil, true)
	s.have(l, "after a peek of a request", 10, 600, 2)
	peek("a peek of all tokens", core.Units{tokens: 600}, true)
	peek("a peek of more than a Capacity", core.Units{tokens: 601}, false)
	first := s.units(l, core.Units{tokens: 500})
	if res := peek("a peek of more than is left", core.Units{tokens: 101}, false); res.RetryAfter <= 0 || !res.Limits()[1].Violated || res.Limits()[0].Violated {
		s.Errorf("a peek of more than is left: retry after %v, limits %+v", res.RetryAfter, res.Limits())
	}
	s.units(l, nil)
	peek("a peek while all slots are in use", nil, false)
	s.have(l, "after peeks", 8, 100, 0)
	s.no(first.Release(s.Context()))
	peek("a peek after a release", nil, true)
	s.have(l, "after a release and a peek", 8, 100, 1)
	s.no(l.DebitUnits(s.Context(), key, core.Units{tokens: 150}))
	if debt := peek("a peek in debt", core.Units{tokens: 1}, false).Limits()[1].Debt; debt != 50 {
		s.Errorf("a debit of 150 with 100 left: the debt is %d, want 50", debt)
	}
}

func unitsComeBack(s *subject) {
	l := s.requestsAndTokens()
	s.units(l, core.Units{core.Requests: 4, tokens: 300})
	s.no(l.RefundUnits(s.Context(), key, core.Units{tokens: 100}))
	s.have(l, "a refund of tokens alone", 6, 400)
	s.no(l.RefundUnits(s.Context(), key, core.Units{core.Requests: 1, tokens: 1000}))
	s.have(l, "a refund of both, of more tokens than were taken", 7, 600)
	if err := l.RefundUnits(s.Context(), key, core.Units{"bytes": 1}); !errors.Is(err, core.ErrUnit) {
		s.Errorf("a refund of a unit that no limit counts: %v, want ErrUnit", err)
	}
	if err := l.RefundUnits(s.Context(), key, core.Units{tokens: -1}); !errors.Is(err, core.ErrCost) {
		s.Errorf("a refund below 0: %v, want ErrCost", err)
	}
}
