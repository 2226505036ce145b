package storetest

import (
	"time"

	"github.com/tokenbucket-go/ratelimit/core"
)

// Reset forgets the bucket of a policy and key, with what it holds.
func resetFills(s *subject) {
	l, other := s.limiter(core.PerMinute(10), atOnce(10)), s.limiterOf("other", core.PerMinute(10))
	s.no(l.Reset(s.Context(), key))
	held := s.take(l, 10, "a new key")
	s.take(other, 9, "the same key of another policy")
	_, err := l.AllowN(s.Context(), key+"2", 8)
	s.no(err)
	s.no(l.Reset(s.Context(), key))
	s.left(l, "after a reset", 10, 10)
	s.left(other, "the same key of another policy", 1)
	res, err := l.Peek(s.Context(), key+"2")
	s.no(err)
	s.resultLeft(&res, "another key of the policy", 2, 2)

	s.take(l, 3, "after a reset")
	s.no(held.Release(s.Context()))
	s.left(l, "a release of what was held before the reset", 7, 7)

	s.deny(other, 2, 6*time.Second, "1 is left")
	s.no(other.Reset(s.Context(), key))
	s.take(other, 2, "a request that was denied before the reset")
}
