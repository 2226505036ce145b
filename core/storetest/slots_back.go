package storetest

import (
	"errors"
	"math/rand/v2"
	"runtime"
	"sync/atomic"
	"time"

	"github.com/tokenbucket-go/ratelimit/core"
)

// This file has the rules on slots that are given back, taken jointly and taken
// at once.

func slotsUndone(s *subject) {
	l := s.limiter(atOnce(5), core.PerDay(10).WithName("daily"), core.PerDay(900).WithName("tokens").WithUnit(tokens).WithMaxHold(time.Minute))
	res := s.units(l, core.Units{core.Requests: 3, tokens: 400})
	s.have(l, "3 requests of 400 tokens", 2, 7, 500)
	s.no(res.Undo(s.Context()))
	s.have(l, "Undo gives back slots, tokens and the estimate", 5, 10, 900)
	s.clock.move(time.Hour)
	s.have(l, "once", 5, 10, 900)
	late := s.units(l, core.Units{core.Requests: 3, tokens: 400})
	s.clock.move(time.Minute)
	s.slots(l, 4, "after MaxHold")
	s.no(late.Undo(s.Context()))
	s.have(l, "a late Undo gives back the tokens, and no slot of another request", 1, 6, 900)
	if err := late.Undo(s.Context()); !errors.Is(err, core.ErrSettled) {
		s.Errorf("Undo again: %v, want ErrSettled", err)
	}
}

// slotsSplit: two charges of one bucket, which count as one.
func slotsSplit(s *subject) {
	l := s.limiter(atOnce(5), core.PerDay(10).WithName("daily"))
	take := func() core.Result {
		s.Helper()
		j, err := core.AllowTogether(s.Context(), core.Charge{Limiter: l, Key: key}, core.Charge{Limiter: l, Key: key, Cost: 2})
		s.no(err)
		if !j.Allowed {
			s.Error("3 slots, in two charges: denied, want allowed")
		}
		return j
	}
	j := take()
	s.have(l, "two charges of one bucket, of 1 and 2", 2, 7)
	s.clock.move(45 * time.Second)
	s.no(j.Hold(s.Context()))
	s.clock.move(45 * time.Second)
	s.have(l, "a Hold holds both", 2, 7)
	s.no(j.Release(s.Context()))
	s.have(l, "a release gives back both", 5, 7)
	j = take()
	s.no(j.Undo(s.Context()))
	s.have(l, "and so does Undo", 5, 7)
	j = take()
	s.clock.move(time.Minute)
	s.no(j.Hold(s.Context()))
	s.have(l, "a Hold takes both again that were lost", 2, 4)
}

func slotsSettled(s *subject) {
	l := s.limiter(atOnce(3), core.PerDay(10).WithName("daily"), core.PerDay(900).WithName("tokens").WithUnit(tokens).WithMaxHold(time.Minute))
	res := s.units(l, core.Units{tokens: 400})
	s.no(res.Settle(s.Context(), core.Units{tokens: 100}))
	s.have(l, "Settle corrects the tokens, and the slot stays out", 2, 9, 800)
	s.no(res.Hold(s.Context()))
	s.no(res.Release(s.Context()))
	s.have(l, "Release gives back the slot, and no tokens", 3, 9, 800)
	if err := res.Hold(s.Context()); !errors.Is(err, core.ErrSettled) {
		s.Errorf("Hold when all is released and settled: %v, want ErrSettled", err)
	}
	res = s.units(l, core.Units{tokens: 400})
	s.no(res.Release(s.Context()))
	s.have(l, "Release leaves the estimate taken", 3, 8, 400)
	s.clock.move(45 * time.Second)
	s.no(res.Hold(s.Context()))
	s.clock.move(45 * time.Second)
	s.have(l, "Hold after Release holds the estimate, and takes no slot", 3, 8, 400)
	s.no(res.Settle(s.Context(), core.Units{tokens: 300}))
	s.have(l, "Settle after Release", 3, 8, 500)
}

func slotsAtMost(s *subject) {
	l := s.limiter(atOnce(5))
	for _, step := range []struct{ most, got int64 }{{3, 3}, {9, 2}, {1, 0}} {
		res, err := l.AllowAtMost(s.Context(), key, step.most)
		s.no(err)
		if res.Cost != step.got || res.Allowed != (step.got > 0) {
			s.Errorf("AllowAtMost(%d) got %d slots, allowed %v; want %d", step.most, res.Cost, res.Allowed, step.got)
		}
		if step.got == 2 {
			s.no(res.Hold(s.Context()))
			s.free(l, 0, "Hold of as many as were there takes none again")
			s.no(res.Release(s.Context()))
			s.free(l, 2, "and a release gives them all back")
			s.slots(l, 2, "which are there at once")
		}
	}
	s.clock.move(time.Minute)
	s.free(l, 5, "slots that AllowAtMost took come back after MaxHold")
}

func slotsJointly(s *subject) {
	s.needsJoint()
	all, each := s.limiterOf("all", atOnce(3), core.PerDay(100).WithName("daily")), s.limiterOf("each", atOnce(1))
	charges := func(user string) []core.Charge {
		return []core.Charge{{Limiter: all, Key: key}, {Limiter: each, Key: user}}
	}
	first, err := core.AllowTogether(s.Context(), charges("ann")...)
	s.no(err)
	for range 4 {
		denied, err := core.AllowTogether(s.Context(), charges("ann")...)
		s.no(err)
		if denied.Allowed {
			s.Error("ann has one slot: a second request is allowed")
		}
		s.no(denied.Release(s.Context()))
	}
	s.have(all, "a denial by one of two buckets takes no slot of the other", 2, 99)
	second, err := core.AllowTogether(s.Context(), charges("bob")...)
	s.no(err)
	if !first.Allowed || !second.Allowed {
		s.Errorf("a slot for each of two users: allowed %v and %v", first.Allowed, second.Allowed)
	}
	s.no(first.Hold(s.Context()))
	s.no(first.Release(s.Context()))
	s.no(first.Release(s.Context()))
	s.have(all, "a release gives back the slots of all buckets once", 2, 98)
	if again, err := core.AllowTogether(s.Context(), charges("ann")...); err != nil || !again.Allowed {
		s.Errorf("a slot that was released in both buckets is there: allowed %v, %v", again.Allowed, err)
	}
}

func slotsUnderConcurrency(s *subject) {
	const most = 5
	l := s.limiter(atOnce(most))
	for range 10 { // all ask before one releases
		var results [goroutines]core.Result
		together(func(n int) {
			for range 4 {
				res, err := l.Allow(s.Context(), key)
				if err != nil {
					s.Errorf("Allow: %v", err)
				}
				if runtime.Gosched(); res.Allowed {
					results[n] = res
					return
				}
			}
		})
		var out atomic.Int64
		together(func(n int) {
			if results[n].Allowed {
				out.Add(1)
			}
			if err := results[n].Release(s.Context()); err != nil && results[n].Allowed {
				s.Errorf("Release: %v", err)
			}
		})
		if out.Load() != most {
			s.Fatalf("64 goroutines have %d of %d slots: reading the state and replacing it must be one atomic step", out.Load(), most)
		}
	}
	s.free(l, most, "all were released")
	var out atomic.Int64
	together(func(int) {
		for range 20 {
			res, err := l.Allow(s.Context(), key)
			if err != nil {
				s.Errorf("Allow: %v", err)
				return
			}
			if !res.Allowed {
				continue
			}
			if n := out.Add(1); n > most {
				s.Errorf("%d requests are at work at once, and there are %d slots", n, most)
			}
			runtime.Gosched()
			out.Add(-1)
			if err := res.Release(s.Context()); err != nil {
				s.Errorf("Release: %v", err)
			}
		}
	})
	s.free(l, most, "all were released again")
}

// slotsHeldUnderConcurrency: Hold and Release of one result meet, and so do
// those of many.
func slotsHeldUnderConcurrency(s *subject) {
	l := s.limiter(atOnce(goroutines))
	results := make([]core.Result, goroutines)
	for i := range results {
		results[i] = *s.slots(l, 1, "one each")
	}
	together(func(n int) {
		for i := range 3 {
			res := results[(n+i)%goroutines] // a copy
			if err := res.Hold(s.Context()); err != nil && !errors.Is(err, core.ErrSettled) {
				s.Errorf("Hold: %v", err)
			}
			if err := res.Release(s.Context()); err != nil {
				s.Errorf("Release: %v", err)
			}
		}
	})
	s.free(l, goroutines, "a slot that was released is free, whatever Hold came beside the release")
	s.slots(l, goroutines, "all at once")
}

// slotsInAnyOrder counts what is out by what its calls returned.
func slotsInAnyOrder(s *subject) {
	random := rand.New(rand.NewPCG(3, 4))
	for round := range 4 {
		most := []int64{1, 7, 100, 700}[round]
		l := s.limiterOf("of "+string(rune('a'+round)), core.InFlight(most).WithMaxHold(time.Minute))
		type taken struct {
			res  *core.Result
			n    int64
			ends time.Time
		}
		var list, gone []taken
		out := int64(0)
		for range 600 {
			s.clock.move(time.Duration(random.Int64N(int64(2 * time.Minute / time.Duration(2*min(most, 100))))))
			now := s.clock.Now()
			for i := 0; i < len(list); i++ {
				if !list[i].ends.After(now) {
					out -= list[i].n
					gone = append(gone, list[i])
					list = append(list[:i], list[i+1:]...)
					i--
				}
			}
			switch at := random.IntN(10); {
			case at < 6:
				n := 1 + random.Int64N(1+most/20)
				res := s.take(l, n)
				if res.Allowed != (out+n <= most) {
					s.Fatalf("%d of %d slots are out: a request for %d is allowed %v", out, most, n, res.Allowed)
				}
				if res.Allowed {
					out += n
					list = append(list, taken{&res, n, now.Add(time.Minute)})
				}
			case at < 7 && len(list) > 0:
				i := random.IntN(len(list))
				s.no(list[i].res.Hold(s.Context()))
				list[i].ends = now.Add(time.Minute)
			case at < 9 && len(list) > 0:
				i := random.IntN(len(list))
				s.no(list[i].res.Release(s.Context()))
				out -= list[i].n
				list = append(list[:i], list[i+1:]...)
			case len(gone) > 0:
				s.no(gone[random.IntN(len(gone))].res.Release(s.Context()))
			}
		}
		s.free(l, most-out, "at the end")
	}
}
