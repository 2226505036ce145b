package storetest

import (
	"slices"
	"time"

	"github.com/tokenbucket-go/ratelimit/core"
)

var reserveRules = []storeRule{
	{"reservations queue in the order of asking", reservationsQueue},
	{"a reservation above the capacity takes nothing", reservationAboveCapacity},
	{"a cancelled reservation gives its tokens back once", cancelGivesBack},
	{"cancelling an earlier reservation moves no later one into another", cancelKeepsLaterOnes},
	{"a reservation waits for the slowest limit", reservationOfSeveral},
	{"reservations that are cancelled from the last one on leave nothing behind", allCancelled},
}

// reserve checks that n tokens can be reserved, with the given delay.
func (s *subject) reserve(l *core.Limiter, n int64, delay time.Duration, rule string) *core.Reservation {
	s.Helper()
	r, err := l.Reserve(s.Context(), key, n)
	if err != nil {
		s.Fatalf("Reserve(%d): %v", n, err)
	}
	if !r.OK() || r.Delay() != delay {
		s.Errorf("%s: Reserve(%d) is OK %v with a delay of %v; want OK after %v", rule, n, r.OK(), r.Delay(), delay)
	}
	return r
}

// drop is one token a minute, with a burst of one.
var drop = core.PerMinute(1)

func reservationsQueue(s *subject) {
	l := s.limiter(drop)
	for n := range 4 {
		s.reserve(l, 1, time.Duration(n)*time.Minute, "each waits a minute longer than the one before")
	}
	s.denies(l, 1, 0, 4*time.Minute, "a request waits behind all reservations")
	s.clock.move(90 * time.Second)
	s.reserve(l, 1, 150*time.Second, "time that passed shortens the queue")
}

func reservationAboveCapacity(s *subject) {
	l := s.limiter(core.PerMinute(5))
	r, err := l.Reserve(s.Context(), key, 6)
	s.no(err)
	if r.OK() || r.Delay() != core.Never {
		s.Errorf("Reserve(6) of 5 is OK %v with a delay of %v; want not OK, Never", r.OK(), r.Delay())
	}
	s.no(r.Cancel(s.Context()))
	s.grants(l, 5, 0, "a reservation that can't be kept takes nothing")
}

func cancelGivesBack(s *subject) {
	l := s.limiter(drop)
	s.reserve(l, 1, 0, "the first is served at once")
	second := s.reserve(l, 1, time.Minute, "the second in a minute")
	s.no(second.Cancel(s.Context()))
	third := s.reserve(l, 1, time.Minute, "a cancelled reservation frees its place")
	s.no(second.Cancel(s.Context()))
	s.reserve(l, 1, 2*time.Minute, "and frees it but once")
	_ = third

	other := s.limiterOf("other", core.PerMinute(10))
	r := s.reserve(other, 7, 0, "tokens that are there")
	s.holds(other, 3, "a reservation takes its tokens")
	s.no(r.Cancel(s.Context()))
	s.holds(other, 10, "cancel gives them back")
}

func cancelKeepsLaterOnes(s *subject) {
	l := s.limiter(drop)
	var queue []*core.Reservation
	for n := range 4 {
		queue = append(queue, s.reserve(l, 1, time.Duration(n)*time.Minute, "in order"))
	}
	s.no(queue[1].Cancel(s.Context()))
	due := []time.Duration{queue[0].Delay(), queue[2].Delay(), queue[3].Delay()}
	for range 3 {
		r, err := l.Reserve(s.Context(), key, 1)
		s.no(err)
		due = append(due, r.Delay())
	}
	slices.Sort(due)
	for i := 1; i < len(due); i++ {
		if due[i]-due[i-1] < time.Minute {
			s.Fatalf("two reservations of one token a minute fall due %v apart, so more is promised than comes: all are due at %v",
				due[i]-due[i-1], due)
		}
	}
}

func reservationOfSeveral(s *subject) {
	l := s.limiter(core.PerMinute(6).WithName("minute"), core.PerHour(6).WithName("hour"))
	s.reserve(l, 6, 0, "all")
	r := s.reserve(l, 1, 10*time.Minute, "a token comes back in 10s to one limit, in 10m to the other")
	s.no(r.Cancel(s.Context()))
	s.reserve(l, 1, 10*time.Minute, "cancel gives back to both")
}

func allCancelled(s *subject) {
	l := s.limiter(drop)
	var queue []*core.Reservation
	s.reserve(l, 1, 0, "the first is served at once")
	for n := 1; n <= 300; n++ {
		queue = append(queue, s.reserve(l, 1, time.Duration(n)*time.Minute, "in order"))
	}
	for _, r := range slices.Backward(queue) {
		s.no(r.Cancel(s.Context()))
	}
	s.denies(l, 1, 0, time.Minute, "when all are cancelled the bucket is as if they had never been made")
	s.reserve(l, 1, time.Minute, "and so is the queue")
}
