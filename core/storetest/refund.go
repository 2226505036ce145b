package storetest

import (
	"time"

	"github.com/tokenbucket-go/ratelimit/core"
)

var refundRules = []storeRule{
	{"a refund gives tokens back up to the capacity", refundIsCapped},
	{"a refund to an unused key changes nothing", refundToUnusedKey},
	{"a refund gives to every limit", refundToEveryLimit},
	{"a reset makes the bucket full", resetFills},
	{"a reset leaves other buckets alone", resetIsLocal},
}

func refundIsCapped(s *subject) {
	l := s.limiter(core.PerMinute(10))
	s.grants(l, 5, 5, "5 of 10")
	s.no(l.Refund(s.Context(), key, 3))
	s.holds(l, 8, "3 refunded")
	s.no(l.Refund(s.Context(), key, 1<<62))
	s.holds(l, 10, "a refund stops at the capacity")
	s.grants(l, 10, 0, "all")
	s.no(l.Refund(s.Context(), key, 0))
	s.denies(l, 1, 0, 6*time.Second, "a refund of 0 gives nothing")
}

func refundToUnusedKey(s *subject) {
	l := s.limiter(core.PerMinute(10))
	s.no(l.Refund(s.Context(), key, 5))
	s.grants(l, 10, 0, "an unused key is full, no more")
	s.denies(l, 1, 0, 6*time.Second, "a refund is not kept for later")
}

func refundToEveryLimit(s *subject) {
	l := s.limiter(core.PerMinute(10).WithName("minute"), core.PerHour(100).WithName("hour"))
	s.grants(l, 10, 0, "10 of both")
	s.no(l.Refund(s.Context(), key, 4))
	for i, want := range []int64{4, 94} {
		if limit := s.take(l, 0).Limits()[i]; limit.Remaining != want {
			s.Errorf("after a refund of 4 the limit %q has %d left, want %d", limit.Limit.Name, limit.Remaining, want)
		}
	}
}

func resetFills(s *subject) {
	l := s.limiter(core.PerMinute(10).WithName("minute"), core.PerHour(20).WithName("hour"))
	s.no(l.Reset(s.Context(), key))
	s.grants(l, 10, 0, "a reset of an unused key changes nothing")
	s.no(l.Reset(s.Context(), key))
	s.grants(l, 10, 0, "a reset key is full in every limit")
	s.no(l.Reset(s.Context(), key))
	s.no(l.Reset(s.Context(), key))
	s.grants(l, 10, 0, "any number of times")
}

func resetIsLocal(s *subject) {
	l, other := s.limiter(core.PerMinute(10)), s.limiterOf("other", core.PerMinute(10))
	s.grants(l, 10, 0, "the policy's bucket")
	s.grants(other, 10, 0, "another policy's bucket of the same key")
	if _, err := l.AllowN(s.Context(), "neighbour", 10); err != nil {
		s.Fatal(err)
	}
	s.no(l.Reset(s.Context(), key))
	s.holds(l, 10, "the reset bucket")
	s.holds(other, 0, "a reset must not touch the same key of another policy")
	if res, err := l.Peek(s.Context(), "neighbour"); err != nil || res.Remaining != 0 {
		s.Errorf("a reset must not touch another key: %d left, %v; want 0", res.Remaining, err)
	}
}
