package storetest

import (
	"time"

	"github.com/tokenbucket-go/ratelimit/core"
)

// Refunds and undos give back at most what fills the bucket, for the next
// request, also if that was denied before. Debits may charge more than there is.

func refundFills(s *subject) {
	l := s.limiter(core.PerMinute(10).WithName("minute"), core.PerHour(100).WithName("hour"))
	s.no(l.Refund(s.Context(), key, 5))
	s.left(l, "a refund to a new key", 10, 100)
	s.take(l, 10, "a new key")
	s.deny(l, 1, 6*time.Second, "all is taken")
	s.no(l.Refund(s.Context(), key, 4))
	s.take(l, 1, "a request that was denied before the refund")
	s.left(l, "after a refund of 4", 3, 93)
	s.no(l.Refund(s.Context(), key, 1<<62))
	s.left(l, "after a refund of more than was taken", 10, 100)
	s.take(l, 10, "no more than the capacity")
	s.deny(l, 1, 6*time.Second, "no refund is kept for later")
}

func debitMakesDebt(s *subject) {
	l := s.limiter(core.PerMinute(10))
	s.no(l.Debit(s.Context(), key, 4))
	s.left(l, "after a debit of 4", 6)
	s.no(l.Debit(s.Context(), key, 11))
	s.deny(l, 0, 30*time.Second, "in a debt of 5")
	s.deny(l, 1, 36*time.Second, "in a debt of 5")
	s.no(l.Refund(s.Context(), key, 2))
	s.deny(l, 1, 24*time.Second, "in a debt of 3")
	s.clock.move(24 * time.Second)
	s.take(l, 1, "when the debt is paid")
}

func undoGivesBack(s *subject) {
	l := s.limiter(core.PerDay(10).WithName("day"), core.PerDay(900).WithName("tokens").WithUnit(tokens), atOnce(5))
	s.take(l, 2, "a new key")
	res := s.units(l, core.Units{core.Requests: 3, tokens: 400})
	s.left(l, "after 3 requests of 400 tokens", 5, 500, 0)
	s.no(res.Undo(s.Context()))
	s.left(l, "after Undo", 8, 900, 3)
	s.clock.move(time.Minute)
	s.left(l, "after MaxHold", 8, 900, 5)
}
