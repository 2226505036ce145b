package storetest

import (
	"strconv"
	"time"

	"github.com/tokenbucket-go/ratelimit/core"
)

// Of a request every limit gives its cost, or none does. Denials and peeks take
// nothing.

func grantTakesCost(s *subject) {
	l := s.limiter(core.PerMinute(10))
	s.left(l, "a new key", 10)
	for _, each := range []struct{ cost, left int64 }{{3, 7}, {1, 6}, {6, 0}} {
		s.resultLeft(s.take(l, each.cost, "while there is enough"), "the answer", each.left)
		s.left(l, "a look after it", each.left)
	}
	s.deny(l, 1, 6*time.Second, "all is taken")
}

func denialTakesNothing(s *subject) {
	l := s.limiter(core.PerMinute(10))
	s.take(l, 8, "a new key")
	for range 3 {
		s.deny(l, 3, 6*time.Second, "2 are left")
	}
	s.left(l, "after three denials", 2)
	s.take(l, 2, "what denials left")
}

// requestsAndTokens is a limit of requests, and one of another unit.
func (s *subject) requestsAndTokens() *core.Limiter {
	s.Helper()
	return s.limiter(core.PerMinute(10).WithName("requests"), core.PerMinute(600).WithName("tokens").WithUnit(tokens))
}

func peekTakesNothing(s *subject) {
	l, left := s.requestsAndTokens(), int64(600)
	for _, each := range []struct {
		taken int64
		retry time.Duration
	}{{0, 0}, {599, 0}, {1, 100 * time.Millisecond}} {
		s.units(l, core.Units{core.Requests: 0, tokens: each.taken})
		left -= each.taken
		for range 2 {
			res, err := l.Peek(s.Context(), key)
			if s.no(err); res.Allowed != (left > 0) || res.RetryAfter != each.retry {
				s.broken("a peek at %d tokens: allowed %v, retry after %v, want %v", left, res.Allowed, res.RetryAfter, each.retry)
			}
			s.left(l, "after a peek", 10, left)
		}
	}
}

func allOrNothing(s *subject) {
	l := s.requestsAndTokens()
	s.units(l, core.Units{tokens: 500})
	s.left(l, "after a request of 500 tokens", 9, 100)
	for range 2 {
		res := s.units(l, core.Units{tokens: 130})
		limits := res.Limits()
		if res.Allowed || limits[0].Violated || !limits[1].Violated || res.RetryAfter != 3*time.Second {
			s.broken("130 of 100 tokens: allowed %v, retry after %v, want denied by the tokens alone, 3s",
				res.Allowed, res.RetryAfter)
		}
	}
	s.left(l, "after denials by the tokens", 9, 100)
	s.take(l, 9, "requests alone")
	if s.units(l, core.Units{tokens: 50}).Allowed {
		s.broken("no request is left: allowed, want denied")
	}
	s.left(l, "after a denial by the requests", 0, 100)
}

func atMostTakesWhatIsThere(s *subject) {
	l := s.limiter(core.PerMinute(10))
	for _, each := range []struct{ most, got int64 }{{4, 4}, {9, 6}, {3, 0}} {
		res, err := l.AllowAtMost(s.Context(), key, each.most)
		if s.no(err); res.Cost != each.got || res.Allowed != (each.got > 0) {
			s.broken("AllowAtMost(%d): %d, allowed %v; want %d", each.most, res.Cost, res.Allowed, each.got)
		}
		if each.got == 6 {
			s.no(res.Undo(s.Context()))
			s.left(l, "as many are given back", 6)
			s.take(l, 6, "all of them")
		}
	}
	s.left(l, "after AllowAtMost of none", 0)
}

func manyLimits(s *subject) {
	var limits []core.Limit
	after := func(taken int64) (left []int64) {
		for n := range limits {
			left = append(left, int64(100+n)-taken)
		}
		return left
	}
	for n := range 12 {
		limits = append(limits, core.PerDay(100+n).WithName(strconv.Itoa(n)))
	}
	l := s.limiter(limits...)
	first := s.take(l, 40, "a first request")
	second := s.take(l, 10, "a second one")
	s.resultLeft(first, "the first answer", after(40)...)
	s.resultLeft(second, "the second answer", after(50)...)
	s.left(l, "then", after(50)...)
}
