package storetest

import (
	"errors"
	"sync/atomic"
	"time"

	"github.com/tokenbucket-go/ratelimit/core"
)

// shareRules are for charges of one request that hold parts of one bucket.
var shareRules = []storeRule{
	{"of several charges of one bucket each ends its own share", shareEnded},
	{"of several charges of one bucket each is settled by itself", shareSettled},
	{"of several charges of one bucket one alone is held", shareHeld},
	{"the share of a charge that is never ended comes back after MaxHold", shareLost},
	{"several charges of one bucket that are ended together end each once", sharesEndedTogether},
	{"several charges of one bucket that it has no room for hold nothing", sharesDenied},
	{"concurrent requests with several charges of one bucket never have more than there is", sharesUnderConcurrency},
}

// sharing is a limiter of slots, tokens and estimates.
func (s *subject) sharing() *core.Limiter {
	s.Helper()
	return s.limiter(atOnce(7), core.PerDay(10).WithName("daily"), core.PerDay(900).WithName("tokens").WithUnit(tokens).WithMaxHold(time.Minute))
}

// two takes 2 slots and 100 tokens, and 3 slots and 300 tokens, in two charges,
// which must be there.
func (s *subject) two(l *core.Limiter) (j core.JointResult, small, large *core.Result) {
	s.Helper()
	j, err := core.AllowTogether(s.Context(),
		core.Charge{Limiter: l, Key: key, Units: core.Units{core.Requests: 2, tokens: 100}},
		core.Charge{Limiter: l, Key: key, Units: core.Units{core.Requests: 3, tokens: 300}})
	s.no(err)
	if !j.Allowed {
		s.Fatal("two charges of one bucket, which has what both ask: denied, want allowed")
	}
	return j, &j.Results[0], &j.Results[1]
}

func shareEnded(s *subject) {
	l := s.sharing()
	_, small, large := s.two(l)
	s.have(l, "charges of 2 and 3, and 100 and 300", 2, 5, 500)
	for range 2 {
		s.no(small.Release(s.Context()))
		s.have(l, "a release of the first gives back its 2 slots, once", 4, 5, 500)
	}
	s.no(small.Undo(s.Context()))
	if err := small.Undo(s.Context()); !errors.Is(err, core.ErrSettled) {
		s.Errorf("Undo again: %v, want ErrSettled", err)
	}
	s.have(l, "and Undo after it all else that it took, once", 4, 7, 600)
	again, err := core.AllowTogether(s.Context(), core.Charge{Limiter: l, Key: key, Cost: 3}, core.Charge{Limiter: l, Key: key, Cost: 1})
	s.no(err)
	s.have(l, "others take what came back", 0, 3, 600)
	s.no(small.Release(s.Context()))
	s.have(l, "an end takes nothing from others", 0, 3, 600)
	s.no(large.Undo(s.Context()))
	s.have(l, "Undo of the second", 3, 6, 900)
	s.no(large.Release(s.Context()))
	s.have(l, "and Release after it", 3, 6, 900)
	s.no(again.Undo(s.Context()))
	s.have(l, "Undo of both", 7, 10, 900)
	s.clock.move(time.Hour)
	s.have(l, "what was ended does not come back again", 7, 10, 900)
}

func shareSettled(s *subject) {
	l := s.sharing()
	_, small, large := s.two(l)
	s.no(small.Settle(s.Context(), core.Units{tokens: 250}))
	s.have(l, "250 were used instead of 100, of the first; its slots stay out", 2, 5, 350)
	if err := small.Undo(s.Context()); !errors.Is(err, core.ErrSettled) {
		s.Errorf("Undo after Settle: %v, want ErrSettled", err)
	}
	s.no(large.Settle(s.Context(), core.Units{tokens: 20}))
	s.have(l, "20 were used instead of 300, of the second", 2, 5, 630)
	s.no(large.Release(s.Context()))
	s.have(l, "a release of the second", 5, 5, 630)
	s.clock.move(time.Minute)
	s.have(l, "what was used does not come back, and the other slots do", 7, 5, 630)
}

func shareHeld(s *subject) {
	l := s.sharing()
	_, small, large := s.two(l)
	s.clock.move(45 * time.Second)
	s.no(small.Hold(s.Context()))
	s.have(l, "a Hold takes nothing", 2, 5, 500)
	s.clock.move(45 * time.Second)
	s.have(l, "only the first is held", 5, 5, 800)
	s.no(large.Hold(s.Context()))
	s.have(l, "the second takes its own again", 2, 5, 500)
	s.clock.move(15 * time.Second)
	s.have(l, "the first comes back", 4, 5, 600)
	s.slots(l, 4, "others take its slots")
	if err := small.Hold(s.Context()); !errors.Is(err, core.ErrExpired) {
		s.Errorf("Hold of slots that others have: %v, want ErrExpired", err)
	}
	s.no(large.Release(s.Context()))
	s.no(large.Hold(s.Context()))
	s.have(l, "the slots of the second are released, and its estimate is held", 3, 1, 500)
	s.no(large.Settle(s.Context(), core.Units{tokens: 300}))
	if err := large.Hold(s.Context()); !errors.Is(err, core.ErrSettled) {
		s.Errorf("Hold of what is released and settled: %v, want ErrSettled", err)
	}
}

func shareLost(s *subject) {
	l := s.sharing()
	_, small, large := s.two(l)
	s.clock.move(30 * time.Second)
	s.no(small.Release(s.Context()))
	s.no(small.Settle(s.Context(), core.Units{tokens: 100}))
	s.clock.move(30*time.Second - time.Microsecond)
	s.have(l, "the end of one leaves the other", 4, 5, 500)
	s.clock.move(time.Microsecond)
	s.have(l, "until MaxHold is over", 7, 5, 800)
	s.slots(l, 5, "others take them")
	s.no(large.Release(s.Context()))
	s.have(l, "a late release takes no slot from them", 2, 0, 800)
}

func sharesEndedTogether(s *subject) {
	l := s.sharing()
	j, small, large := s.two(l)
	s.no(small.Release(s.Context()))
	s.clock.move(45 * time.Second)
	s.no(j.Hold(s.Context()))
	s.clock.move(45 * time.Second)
	s.have(l, "a Hold of all holds what is left", 4, 5, 500)
	s.no(j.Release(s.Context()))
	s.have(l, "a release of all gives back what is left", 7, 5, 500)
	s.no(large.Release(s.Context()))
	s.have(l, "once", 7, 5, 500)
	s.no(j.Undo(s.Context()))
	s.have(l, "Undo of all gives back the tokens", 7, 10, 900)
	if err := errors.Join(j.Hold(s.Context()), j.Undo(s.Context())); !errors.Is(err, core.ErrSettled) {
		s.Errorf("Hold and Undo when all is over: %v, want ErrSettled", err)
	}
	j, small, _ = s.two(l)
	s.no(small.Undo(s.Context()))
	if err := j.Settle(s.Context(), core.Units{tokens: 50}); !errors.Is(err, core.ErrSettled) {
		s.Errorf("Settle of all, of which one is undone: %v, want ErrSettled", err)
	}
	s.have(l, "and it settles the other", 4, 7, 850)
}

func sharesDenied(s *subject) {
	l := s.sharing()
	of := func(cost int64) core.Charge { return core.Charge{Limiter: l, Key: key, Cost: cost} }
	for _, charges := range [][]core.Charge{{of(4), of(4)}, {of(7), of(1)}, {of(1), of(6), of(1)}} {
		j, err := core.AllowTogether(s.Context(), charges...)
		s.no(err)
		if j.Allowed || j.RetryAfter != core.Never {
			s.Errorf("8 of 7 slots: allowed %v, retry after %v; want denied for ever", j.Allowed, j.RetryAfter)
		}
		s.no(errors.Join(j.Release(s.Context()), j.Undo(s.Context())))
		s.have(l, "a denial takes nothing", 7, 10, 900)
	}
	_, small, _ := s.two(l)
	s.clock.move(20 * time.Second)
	denied, err := core.AllowTogether(s.Context(), of(2), of(2))
	s.no(err)
	if denied.Allowed || denied.RetryAfter != 40*time.Second {
		s.Errorf("4 of 2 slots: allowed %v, retry after %v; want denied until slots may come back, in 40s", denied.Allowed, denied.RetryAfter)
	}
	for i := range denied.Results {
		s.no(denied.Results[i].Release(s.Context()))
	}
	s.have(l, "a release of what was denied gives back nothing", 2, 5, 500)
	s.no(small.Release(s.Context()))
	if j, err := core.AllowTogether(s.Context(), of(2), of(2)); err != nil || !j.Allowed {
		s.Errorf("4 of 4 slots, when a share was released: allowed %v, %v", j.Allowed, err)
	}
}

// sharesUnderConcurrency counts what is out by what its calls returned. The
// charges of a request are released at once.
func sharesUnderConcurrency(s *subject) {
	const most = 12
	l := s.limiter(atOnce(most), core.PerDay(1_000_000).WithName("daily"))
	var out, taken atomic.Int64
	together(func(n int) {
		for i := range 10 {
			costs := [2]int64{1 + int64(n+i)%3, 1 + int64(i)%2}
			j, err := core.AllowTogether(s.Context(), core.Charge{Limiter: l, Key: key, Cost: costs[0]}, core.Charge{Limiter: l, Key: key, Cost: costs[1]})
			if err != nil {
				s.Errorf("AllowTogether: %v", err)
				return
			}
			if !j.Allowed {
				continue
			}
			taken.Add(1)
			if n := out.Add(costs[0] + costs[1]); n > most {
				s.Errorf("%d slots are out at once, and there are %d", n, most)
			}
			done := make(chan error)
			for k := range costs {
				go func() {
					out.Add(-costs[k])
					done <- j.Results[k].Release(s.Context())
				}()
			}
			if err := errors.Join(<-done, <-done); err != nil {
				s.Errorf("Release: %v", err)
			}
		}
	})
	if taken.Load() == 0 {
		s.Error("of concurrent requests some are allowed")
	}
	s.free(l, most, "all were released")
	s.slots(l, most, "all at once")
}
