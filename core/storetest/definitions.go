package storetest

import (
	"time"

	"github.com/tokenbucket-go/ratelimit/core"
)

// Several definitions of one limit.
var definitionRules = []storeRule{
	{"what a higher capacity adds is there at once", capacityRaised},
	{"a lower capacity cuts what is left", capacityLowered},
	{"what a lower capacity cut is there again", capacityLoweredAndRaised},
	{"a definition does not give another one its tokens", tiersInTurns},
	{"a changed rate counts from the last write", rateChanged},
	{"what is undone under a lower capacity comes back", undoneAfterCut},
	{"after a change the delays are what happens", delaysAfterChange},
}

func capacityRaised(s *subject) {
	s.grants(s.limiter(core.PerHour(10)), 4, 6, "before")
	raised := s.limiter(core.PerHour(20))
	s.holds(raised, 16, "4 stay used when the capacity goes from 10 to 20")
	s.grants(raised, 1, 15, "and what it adds is added once")
	s.clock.move(time.Hour)
	s.holds(raised, 20, "and they refill up to the new capacity")
}

func capacityLowered(s *subject) {
	before := s.limiter(core.PerHour(10))
	s.grants(before, 1, 9, "before")
	lowered := s.limiter(core.PerHour(3))
	s.holds(lowered, 2, "1 of a capacity of 3 is used")
	s.grants(lowered, 2, 0, "what is left may be taken")
	s.denies(lowered, 1, 0, 20*time.Minute, "and no more")
	s.grants(before, 6, 1, "under the capacity of 10, 3 are used")
	s.denies(lowered, 1, 0, 20*time.Minute, "a lower capacity leaves no debt of what was used before")
	s.clock.move(20 * time.Minute)
	s.grants(lowered, 1, 0, "so it refills from nothing at its own rate")
}

// capacityLoweredAndRaised: a limit is lowered by mistake, and set back.
func capacityLoweredAndRaised(s *subject) {
	for name, day := range map[string]core.Limit{"continuous": core.PerDay(100_000), "aligned": core.PerDay(100_000).WithMode(core.Aligned)} {
		wrong := day
		wrong.Capacity, wrong.RefillRate = 100, 100
		right, lowered := s.limiterOf(name, day), s.limiterOf(name, wrong)
		s.grants(right, 1, 99_999, name+": before")
		s.grants(lowered, 1, 98, name+": a limit of 100 by mistake")
		s.holds(right, 99_998, name+": all that was not used is there again")
		s.grants(right, 60_000, 39_998, name+": used up but for 39,998")
		s.holds(lowered, 0, name+": nothing is left of 100")
		s.holds(right, 39_998, name+": and what the mistake cut is there again")
	}
	slow := core.PerMinute(1).WithBurst(100_000)
	right, lowered := s.limiterOf("slow", slow), s.limiterOf("slow", slow.WithBurst(100))
	s.grants(right, 60_000, 40_000, "before")
	s.denies(lowered, 1, 0, time.Minute, "nothing is left under a lower capacity")
	s.clock.move(time.Minute)
	s.grants(lowered, 1, 0, "one has come back since")
	s.holds(right, 40_000, "what is taken under a lower capacity leaves the rest as it was")
}

// tiersInTurns: a request under a larger definition of a limit does not fill
// the bucket of a smaller one.
func tiersInTurns(s *subject) {
	small := s.limiter(core.PerHour(10))
	large, err := small.WithLimits(core.PerHour(100))
	s.no(err)
	s.grants(small, 10, 0, "the small bucket is used up")
	s.grants(large, 1, 89, "the large one has what it adds")
	s.denies(small, 1, 0, 6*time.Minute, "the small one has nothing of that")
	s.grants(large, 89, 0, "the large one has no more than its capacity, in all")
	s.denies(large, 1, 0, 36*time.Second, "and no more")
}

// rateChanged: a change alters nothing that is there at the last write, and its
// rate counts from then on, in any mode.
func rateChanged(s *subject) {
	for name, after := range map[string]core.Limit{
		"slower":     core.Per(1, 10*time.Second).WithBurst(10),
		"faster":     core.PerSecond(5).WithBurst(10),
		"stepped":    core.Per(1, 10*time.Second).WithBurst(10).WithMode(core.Stepped),
		"and raised": core.Per(1, 10*time.Second).WithBurst(12),
	} {
		before, changed := s.limiterOf(name, core.PerSecond(1).WithBurst(10)), s.limiterOf(name, after)
		s.grants(before, 8, 2, name+": before")
		left := after.Capacity - 8
		s.holds(changed, left, name+": as many as before the change, and what the capacity adds")
		s.grants(changed, 1, left-1, name+": and they can be taken")
		one := after.RefillInterval / time.Duration(after.RefillRate)
		s.clock.move(one - time.Microsecond)
		s.holds(changed, left-1, name+": nothing comes before the new rate brings it")
		s.clock.move(time.Microsecond)
		s.holds(changed, left, name+": the new rate counts from the change")
	}
}

// undoneAfterCut: what came back after a lower Capacity cut the level, and was
// taken and undone, is there again.
func undoneAfterCut(s *subject) {
	high, low := s.limiter(core.PerHour(100)), s.limiter(core.PerHour(10))
	s.grants(high, 70, 30, "before")
	s.denies(low, 1, 0, 6*time.Minute, "nothing is left of 10")
	s.clock.move(30 * time.Minute)
	res := s.take(low, 3)
	if res.Remaining != 2 {
		s.Errorf("5 have come back at 10 an hour, and 3 are taken: %d left, want 2", res.Remaining)
	}
	s.no(res.Undo(s.Context()))
	s.holds(low, 5, "what was undone is there again")
	s.holds(high, 35, "under a higher capacity all that was used counts, and what came back")
}

// delaysAfterChange: what a Peek and a denial promise after changes is neither
// too early nor too late, by a microsecond.
func delaysAfterChange(s *subject) {
	for name, uses := range usesInTurn {
		now := func() *core.Limiter { return s.limiterOf(name, uses[len(uses)-1].limit) }
		play := func() {
			s.Helper()
			for i, u := range uses {
				if i == 1 && u.take > 0 {
					if l := s.limiterOf(name, u.limit); s.take(l, 0).Remaining < u.take {
						s.take(l, u.take) // is denied, and from now on the new rate counts
					}
					s.clock.move(2200 * time.Millisecond)
				}
				if !s.take(s.limiterOf(name, u.limit), u.take).Allowed {
					s.Errorf("premise: %s: %d tokens of %v are there", name, u.take, u.limit)
				}
				s.clock.move(300 * time.Millisecond)
			}
		}
		capacity := uses[len(uses)-1].limit.Capacity
		play()
		reset := s.take(now(), 0).ResetAfter
		s.clock.move(reset)
		if left := s.take(now(), 0); left.Remaining != capacity || left.ResetAfter != 0 {
			s.Errorf("%s: %d of %d tokens after ResetAfter, %v; full in %v", name, left.Remaining, capacity, reset, left.ResetAfter)
		}
		s.clock.move(time.Hour)
		play()
		if denied := s.take(now(), capacity); denied.Allowed {
			s.Errorf("premise: %s: %d tokens are there", name, capacity)
		} else {
			s.clock.move(denied.RetryAfter - time.Microsecond)
			if s.take(now(), capacity).Allowed {
				s.Errorf("%s: %d tokens are there a microsecond before RetryAfter, %v", name, capacity, denied.RetryAfter)
			}
			s.clock.move(time.Microsecond)
			if !s.take(now(), capacity).Allowed {
				s.Errorf("%s: %d tokens are not there after RetryAfter, %v", name, capacity, denied.RetryAfter)
			}
		}
		s.clock.move(24 * time.Hour)
	}
}

// use is so many tokens taken under a definition.
type use struct {
	limit core.Limit
	take  int64
}

// usesInTurn are uses of one key, under several definitions.
var usesInTurn = map[string][]use{
	"slower":                 {{core.Per(100, 10*time.Second), 98}, {core.PerSecond(1).WithBurst(100), 1}},
	"faster":                 {{core.PerMinute(10), 8}, {core.PerSecond(1).WithBurst(10), 0}},
	"lowered":                {{core.PerSecond(1).WithBurst(100), 95}, {core.PerSecond(2).WithBurst(10), 0}},
	"raised":                 {{core.PerSecond(1).WithBurst(10), 9}, {core.PerMinute(100), 0}},
	"a fast one between":     {{core.PerMinute(1).WithBurst(100), 83}, {core.PerSecond(10).WithBurst(20), 17}, {core.PerMinute(1).WithBurst(10), 0}},
	"a small one between":    {{core.PerMinute(100), 62}, {core.PerSecond(5).WithBurst(10), 10}, {core.PerSecond(1).WithBurst(5), 0}},
	"lowered twice":          {{core.PerSecond(1).WithBurst(100), 92}, {core.PerSecond(5).WithBurst(50), 10}, {core.Per(1, 10*time.Second).WithBurst(5), 0}},
	"lowered, and set back":  {{core.PerMinute(100), 93}, {core.PerSecond(10).WithBurst(20), 19}, {core.PerMinute(100).WithBurst(10), 0}},
	"raised, and lowered":    {{core.Per(1, 10*time.Second).WithBurst(20), 19}, {core.PerSecond(10).WithBurst(100), 49}, {core.PerMinute(100).WithBurst(10), 0}},
	"a slow one in the past": {{core.Per(2, 10*time.Second).WithBurst(100), 100}, {core.PerSecond(2).WithBurst(20), 2}, {core.PerMinute(2).WithBurst(10), 0}},
}
