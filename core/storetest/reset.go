package storetest

import (
	"time"

	"github.com/tokenbucket-go/ratelimit/core"
)

// Reset forgets the bucket of a policy and key.

func resetFills(s *subject) {
	l := s.limiter(core.PerMinute(10).WithName("minute"), core.PerDay(20).WithName("day"), atOnce(10))
	s.no(l.Reset(s.Context(), key))
	for range 2 {
		before := s.take(l, 10, "a new or reset key")
		s.deny(l, 1, time.Minute, "all is taken")
		s.no(l.Reset(s.Context(), key))
		s.left(l, "after a reset", 10, 20, 10)
		s.take(l, 2, "a reset key")
		s.no(before.Release(s.Context()))
		s.left(l, "a release of what was held before the reset", 8, 18, 8)
		s.no(l.Reset(s.Context(), key))
	}
	simple := s.limiterOf("simple", core.PerMinute(10))
	s.take(simple, 10, "a new key")
	s.deny(simple, 1, 6*time.Second, "all is taken")
	s.no(simple.Reset(s.Context(), key))
	s.take(simple, 1, "a request that was denied before the reset")
}

func resetIsLocal(s *subject) {
	l, other := s.limiter(core.PerMinute(10)), s.limiterOf("other", core.PerMinute(10))
	s.take(l, 10, "a new key")
	s.take(other, 9, "the same key of another policy")
	_, err := l.AllowN(s.Context(), key+"2", 8)
	s.no(err)
	s.no(l.Reset(s.Context(), key))
	s.left(l, "after a reset", 10)
	s.left(other, "the same key of another policy", 1)
	res, err := l.Peek(s.Context(), key+"2")
	s.no(err)
	s.resultLeft(&res, "another key of the policy", 2)
}
