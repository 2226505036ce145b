package storetest

import (
	"errors"
	"time"

	"github.com/tokenbucket-go/ratelimit/core"
)

// Reservations are debts, and due when the bucket has the tokens again.

// reserve reserves n tokens, which must be due in so long.
func (s *subject) reserve(l *core.Limiter, n int64, delay time.Duration, when string) *core.Result {
	s.Helper()
	r, err := l.Reserve(s.Context(), key, n)
	if s.no(err); r.Allowed != (delay < core.Never) || max(r.Delay(), r.RetryAfter) != delay {
		s.broken("%s: a reservation of %d is allowed: %v, due in %v, want %v", when, n, r.Allowed, max(r.Delay(), r.RetryAfter), delay)
	}
	return &r
}

func reservationsInTurn(s *subject) {
	l := s.limiter(core.PerMinute(6).WithName("a"), core.PerHour(6).WithName("slowest"), core.PerMinute(6).WithName("b"))
	s.reserve(l, 6, 0, "a new key")
	s.reserve(l, 7, core.Never, "more than the capacity")
	for n := range 4 {
		s.reserve(l, 1, time.Duration(n+1)*10*time.Minute, "behind all others")
	}
	s.deny(l, 1, 50*time.Minute, "behind all reservations")
	s.clock.move(5 * time.Minute)
	s.reserve(l, 1, 45*time.Minute, "five minutes later")
}

func cancelGivesBack(s *subject) {
	l := s.limiter(core.PerMinute(1))
	var queue []*core.Result
	for n := range 4 {
		queue = append(queue, s.reserve(l, 1, time.Duration(n)*time.Minute, "in turn"))
	}
	s.deny(l, 1, 4*time.Minute, "behind all reservations")
	s.no(queue[1].Undo(s.Context()))
	s.deny(l, 1, 4*time.Minute, "one was canceled in front of others, whose times stay")
	s.no(queue[3].Undo(s.Context()))
	if err := queue[3].Undo(s.Context()); !errors.Is(err, core.ErrSettled) {
		s.broken("undone again: %v, want ErrSettled", err)
	}
	s.deny(l, 1, 3*time.Minute, "the last one was canceled")
	s.reserve(l, 1, 3*time.Minute, "in its place")
}
