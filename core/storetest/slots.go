package storetest

import (
	"errors"
	"math/rand/v2"
	"runtime"
	"sync/atomic"
	"time"

	"github.com/tokenbucket-go/ratelimit/core"
)

var slotRules = []storeRule{
	{"no more slots are out than there are", slotsAtOnce},
	{"a released slot is there for the next request", slotReleased},
	{"a slot is there again after MaxHold, and not before", slotExpires},
	{"slots and tokens are taken together or not at all", slotsAndTokens},
	{"a cost is a number of slots", slotsByCost},
	{"a slot is given back once", slotReleasedOnce},
	{"a late release takes no slot from another request", slotReleasedLate},
	{"a slot that is held stays out for another MaxHold", slotHeld},
	{"a slot that was lost is held again only if it is free", slotLost},
	{"slots that are out count under another capacity", slotsResized},
	{"a slot keeps the MaxHold that it was taken with", slotsOtherHold},
	{"slots outlast a version of the policy without them", slotsOutlastVersion},
	{"two versions of a policy count the slots of both", slotsOfTwoVersions},
	{"a clock that steps back leaves slots their remaining time", slotsBackwards},
	{"a decision that is undone gives back slots and tokens", slotsUndone},
	{"a decision that is undone gives back slots that its policy has no longer", slotsUndoneWithout},
	{"two charges of one bucket hold and release their slots together", slotsSplit},
	{"a settlement leaves slots out", slotsSettled},
	{"as many slots as are there are taken", slotsAtMost},
	{"of buckets that are charged together one that denies keeps the slots of all", slotsJointly},
	{"a bucket that can't be used takes no slot of the buckets beside it", slotsBesideABadKey},
	{"concurrent requests never have more slots than there are", slotsUnderConcurrency},
	{"concurrent holds and releases lose no slot", slotsHeldUnderConcurrency},
	{"any order of slots taken, held, released and expired counts each once", slotsInAnyOrder},
}

// atOnce is n slots with a MaxHold of a minute.
func atOnce(n int) core.Limit { return core.InFlight(n).WithName("at-once").WithMaxHold(time.Minute) }

// slots takes so many slots of key, which must be there.
func (s *subject) slots(l *core.Limiter, cost int64, rule string) *core.Result {
	s.Helper()
	res := s.take(l, cost)
	if !res.Allowed {
		s.Errorf("%s: AllowN(%d) is denied, want allowed", rule, cost)
	}
	return &res
}

// free checks how many slots of key are not out.
func (s *subject) free(l *core.Limiter, want int64, rule string) {
	s.Helper()
	for _, limit := range s.take(l, 0).Limits() {
		if limit.Limit.Mode == core.Concurrent && limit.Remaining != want {
			s.Errorf("%s: %d slots are free, want %d", rule, limit.Remaining, want)
		}
	}
}

func slotsAtOnce(s *subject) {
	l := s.limiter(atOnce(3))
	s.free(l, 3, "a new key")
	for left := int64(2); left >= 0; left-- {
		s.grants(l, 1, left, "each request takes a slot")
	}
	s.denies(l, 1, 0, time.Minute, "a fourth at once")
	s.clock.move(20 * time.Second)
	s.denies(l, 1, 0, 40*time.Second, "time alone frees no slot before MaxHold")
}

func slotReleased(s *subject) {
	l := s.limiter(atOnce(2))
	first := s.slots(l, 1, "a free slot")
	s.slots(l, 1, "a free slot")
	for range 5 {
		s.denies(l, 1, 0, time.Minute, "no slot is free")
		s.no(first.Release(s.Context()))
		s.free(l, 1, "a release frees its slot")
		first = s.slots(l, 1, "a slot that was just released")
	}
}

func slotExpires(s *subject) {
	for _, hold := range []time.Duration{time.Millisecond, 1500 * time.Microsecond, time.Minute, 30 * 24 * time.Hour} {
		l := s.limiterOf(hold.String(), core.InFlight(2).WithMaxHold(hold))
		s.grants(l, 1, 1, "a first slot")
		s.clock.move(hold / 2)
		s.grants(l, 1, 0, "a second slot")
		s.denies(l, 1, 0, hold-hold/2, "RetryAfter is when the first slot's MaxHold is over")
		s.denies(l, 2, 0, hold, "and for two, when the second's is")
		s.clock.move(hold - hold/2 - time.Microsecond)
		s.denies(l, 1, 0, time.Microsecond, "a microsecond before MaxHold is over")
		s.clock.move(time.Microsecond)
		s.grants(l, 1, 0, "a slot whose process died, when MaxHold is over")
		s.denies(l, 1, 0, hold/2, "the other is still out")
		s.clock.move(2 * hold)
		s.free(l, 2, "all have come back, and no more than there are")
	}
}

func slotsAndTokens(s *subject) {
	l := s.limiter(atOnce(2), core.PerDay(3).WithName("daily"))
	first := s.slots(l, 1, "a first")
	s.slots(l, 1, "a second")
	for range 3 {
		if res := s.take(l, 1); res.Allowed || res.RetryAfter != time.Minute {
			s.Errorf("no slot is free: allowed %v, retry after %v; want denied, 1m", res.Allowed, res.RetryAfter)
		}
	}
	s.have(l, "a denial by the slots takes no token", 0, 1)
	s.no(first.Release(s.Context()))
	s.have(l, "a release gives back the slot and no token", 1, 1)
	third := s.slots(l, 1, "the last token")
	s.no(third.Release(s.Context()))
	for range 3 {
		if res := s.take(l, 1); res.Allowed {
			s.Error("the tokens are used up: allowed, want denied")
		}
	}
	s.have(l, "a denial by the tokens takes no slot", 1, 0)
}

func slotsByCost(s *subject) {
	l := s.limiter(atOnce(10))
	s.grants(l, 7, 3, "a cost of 7")
	s.denies(l, 4, 3, time.Minute, "4 of 3 slots")
	s.grants(l, 0, 3, "a cost of 0 takes no slot")
	three := s.slots(l, 3, "the rest")
	s.no(three.Release(s.Context()))
	s.free(l, 3, "a release gives back all slots of its cost")
	s.denies(l, 11, 3, core.Never, "more slots than there are")

	gpus := s.limiterOf("gpus", core.InFlight(8).WithUnit("gpus").WithMaxHold(time.Minute), core.PerDay(100))
	res := s.units(gpus, core.Units{"gpus": 6})
	s.have(gpus, "slots of another unit are as many as the request takes of it", 2, 99)
	s.no(res.Release(s.Context()))
	s.have(gpus, "and so many come back", 8, 99)
}

func slotReleasedOnce(s *subject) {
	l := s.limiter(atOnce(3))
	first, second := s.slots(l, 1, "a first"), s.slots(l, 1, "a second")
	s.slots(l, 1, "a third")
	again := *first
	s.no(first.Release(s.Context()))
	s.no(first.Release(s.Context()))
	s.no(again.Release(s.Context()))
	s.free(l, 1, "a slot that is released twice, also by a copy of the result, comes back once")
	s.no(first.Undo(s.Context()))
	s.free(l, 1, "and an Undo does not give it back again")
	s.no(second.Undo(s.Context()))
	s.no(second.Release(s.Context()))
	s.free(l, 2, "nor a release after Undo")
	denied := s.take(l, 3)
	s.no(denied.Release(s.Context()))
	s.free(l, 2, "a denial has no slot to give back")
}

func slotReleasedLate(s *subject) {
	l := s.limiter(atOnce(2))
	first := s.slots(l, 1, "a first")
	s.slots(l, 1, "a second")
	s.clock.move(time.Minute)
	s.slots(l, 1, "after MaxHold")
	s.slots(l, 1, "after MaxHold")
	s.no(first.Release(s.Context()))
	s.free(l, 0, "both slots are those of others")
	s.denies(l, 1, 0, time.Minute, "a late release takes nobody's slot")
	alone := s.limiterOf("alone", atOnce(1))
	late := s.slots(alone, 1, "a first")
	s.clock.move(time.Hour)
	s.no(late.Release(s.Context()))
	s.free(alone, 1, "a late release adds no slot")
}

func slotHeld(s *subject) {
	l := s.limiter(atOnce(2))
	held := s.slots(l, 1, "a first")
	for range 4 {
		s.slots(l, 1, "the one that is not held")
		s.clock.move(45 * time.Second)
		s.no(held.Hold(s.Context()))
		s.denies(l, 1, 0, 15*time.Second, "Hold lengthens its own slot alone")
		s.clock.move(15 * time.Second)
		s.free(l, 1, "a slot that is held is out for longer than MaxHold")
	}
	s.clock.move(45*time.Second - time.Microsecond)
	s.free(l, 1, "a microsecond before a MaxHold from the last Hold is over")
	s.clock.move(time.Microsecond)
	s.free(l, 2, "a MaxHold after the last Hold")

	several := s.limiterOf("several", atOnce(5))
	held = s.slots(several, 4, "a cost of 4")
	s.clock.move(30 * time.Second)
	s.no(held.Hold(s.Context()))
	s.no(held.Hold(s.Context()))
	s.free(several, 1, "Hold takes no slot again")
	s.no(held.Release(s.Context()))
	s.free(several, 5, "a release after Hold gives back all slots")
	if err := held.Hold(s.Context()); !errors.Is(err, core.ErrSettled) {
		s.Errorf("Hold after Release: %v, want ErrSettled", err)
	}
	s.free(several, 5, "Hold after Release takes nothing")
}

func slotLost(s *subject) {
	l := s.limiter(atOnce(2), core.PerDay(100).WithName("daily"))
	first, second := s.slots(l, 1, "a first"), s.slots(l, 1, "a second")
	s.clock.move(time.Minute)
	s.slots(l, 1, "another has one of the slots")
	s.no(first.Hold(s.Context()))
	s.have(l, "a lost slot that is free is taken again, without a token", 0, 97)
	if err := second.Hold(s.Context()); !errors.Is(err, core.ErrExpired) {
		s.Errorf("Hold of a lost slot while others have all: %v, want ErrExpired", err)
	}
	s.have(l, "a Hold that fails takes nothing", 0, 97)
	s.no(second.Release(s.Context()))
	s.free(l, 0, "a release of a lost slot takes nobody's")
	s.no(first.Release(s.Context()))
	s.free(l, 1, "a slot that was taken again is released as any other")
}

func slotsResized(s *subject) {
	five, two, eight := s.limiter(atOnce(5)), s.limiter(atOnce(2)), s.limiter(atOnce(8))
	var out []*core.Result
	for range 4 {
		out = append(out, s.slots(five, 1, "of 5"))
	}
	s.denies(two, 1, 0, time.Minute, "4 are out, so none of 2 is free")
	s.no(out[0].Release(s.Context()))
	s.no(out[1].Release(s.Context()))
	s.denies(two, 1, 0, time.Minute, "2 are out, so none of 2 is free")
	s.no(out[2].Release(s.Context()))
	last := s.slots(two, 1, "1 is out, so one of 2 is free")
	s.free(five, 3, "2 of 5 are out")
	s.slots(eight, 6, "2 of 8 are out, so 6 are free")
	s.free(eight, 0, "8 are out")
	s.free(five, 0, "8 are out")
	s.no(last.Release(s.Context()))
	s.free(five, 0, "7 are out")
	s.free(eight, 1, "7 are out")
	s.clock.move(time.Minute)
	s.free(two, 2, "all have come back")
	s.free(eight, 8, "all have come back")
}

func slotsOtherHold(s *subject) {
	l := s.limiter(atOnce(3))
	set := func(hold time.Duration) {
		s.Helper()
		s.no(l.SetPolicy(core.Policy{Name: "api", Limits: []core.Limit{atOnce(3).WithMaxHold(hold)}, OnFailure: core.FailClosed}))
	}
	minute := s.slots(l, 1, "for a minute")
	set(time.Second)
	s.slots(l, 1, "for a second")
	s.clock.move(time.Second)
	s.free(l, 2, "the slot of a second has come back, that of a minute has not")
	set(time.Hour)
	hour := s.slots(l, 1, "for an hour")
	s.clock.move(59 * time.Second)
	s.free(l, 2, "the slot of a minute has come back, that of an hour has not")
	s.no(minute.Hold(s.Context()))
	s.free(l, 1, "Hold takes a lost slot again")
	s.clock.move(time.Minute)
	s.free(l, 2, "for the MaxHold that it was taken with")
	set(time.Second)
	s.no(hour.Release(s.Context()))
	s.free(l, 3, "a release finds a slot that was taken under another MaxHold")
}

func slotsOutlastVersion(s *subject) {
	daily := core.PerDay(100).WithName("daily")
	both, without := s.limiter(atOnce(2), daily), s.limiter(daily)
	first := s.slots(both, 1, "a first")
	s.slots(both, 1, "a second")
	s.grants(without, 1, 97, "a version without slots is not denied by them")
	s.free(both, 0, "slots stay out while a version without them decides")
	s.no(first.Release(s.Context()))
	s.grants(without, 1, 96, "and so on")
	s.free(both, 1, "and are released")
	s.clock.move(time.Minute)
	s.take(without, 1)
	s.free(both, 2, "and come back after MaxHold")
	only := s.limiter(atOnce(2))
	s.slots(only, 2, "a version without the tokens")
	s.free(both, 0, "has the same slots")
}

func slotsOfTwoVersions(s *subject) {
	before, after := s.limiter(atOnce(4)), s.limiter(atOnce(6).WithMaxHold(time.Second), core.PerDay(100).WithName("daily"))
	old := s.slots(before, 3, "the old version")
	s.slots(after, 1, "the new version")
	s.denies(before, 1, 0, time.Second, "4 are out")
	s.slots(after, 2, "6 slots, of which 4 are out")
	if res := s.take(after, 1); res.Allowed {
		s.Error("6 slots of the new version are out: a seventh is allowed")
	}
	s.clock.move(time.Second)
	s.free(before, 1, "those of the new version have come back")
	s.no(old.Release(s.Context()))
	s.free(before, 4, "those of the old version were released")
	s.free(after, 6, "those of the old version were released")
}

// slotsBackwards: a fail-over to a server whose clock is behind leaves a slot as much time as it had at the last write.
func slotsBackwards(s *subject) {
	l := s.limiter(atOnce(3), core.PerDay(100).WithName("daily"))
	first := s.slots(l, 1, "a first")
	s.clock.move(40 * time.Second)
	s.slots(l, 1, "a second")
	s.clock.move(-24 * time.Hour)
	third := s.slots(l, 1, "a third, by a clock that is behind")
	if res := s.take(l, 1); res.Allowed || res.RetryAfter != 20*time.Second {
		s.Errorf("3 slots are out, the first for 20 more seconds: allowed %v, retry after %v", res.Allowed, res.RetryAfter)
	}
	s.clock.move(20*time.Second - time.Microsecond)
	s.free(l, 0, "before MaxHold is over no slot comes back, whatever the clock did")
	s.clock.move(time.Microsecond)
	s.free(l, 1, "MaxHold is over for the first")
	s.no(first.Release(s.Context()))
	s.free(l, 1, "a late release after a step back takes no slot")
	s.slots(l, 1, "a fourth")
	s.clock.move(-time.Hour)
	s.no(third.Release(s.Context()))
	s.free(l, 1, "a release finds a slot whose end a clock has moved")
	s.clock.move(2 * time.Minute)
	s.free(l, 3, "all come back")
}

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

// slotsUndoneWithout: other processes still count the slots that this one has removed from its policy.
func slotsUndoneWithout(s *subject) {
	daily := core.PerDay(10).WithName("daily")
	l, other := s.limiter(atOnce(2), daily), s.limiter(atOnce(2), daily)
	set := func(limits ...core.Limit) {
		s.no(l.SetPolicy(core.Policy{Name: "api", Limits: limits, OnFailure: core.FailClosed}))
	}
	first, second := s.slots(l, 1, "a first"), s.slots(l, 1, "a second")
	set(daily)
	s.no(first.Undo(s.Context()))
	s.have(other, "Undo gives back the slot, and the token", 1, 9)
	set(core.PerDay(10).WithName("another"))
	s.no(second.Undo(s.Context()))
	s.have(other, "and the slot alone, if its policy has no other limit of the decision", 2, 9)
}

// slotsSplit: two charges of one bucket, which count as one.
func slotsSplit(s *subject) {
	l := s.limiter(atOnce(5), core.PerDay(10).WithName("daily"))
	take := func() core.JointResult {
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

func slotsBesideABadKey(s *subject) {
	s.needsJoint()
	s.crowd("bad", key)
	good, bad := s.limiterOf("good", atOnce(2)), s.limiterOf("bad", core.PerDay(2))
	for range 5 {
		_, err := core.AllowTogether(s.Context(), core.Charge{Limiter: good, Key: key}, core.Charge{Limiter: bad, Key: key})
		if !errors.Is(err, core.ErrUnavailable) {
			s.Errorf("a charge of a key that can't be used: %v, want ErrUnavailable", err)
		}
	}
	s.free(good, 2, "a decision that failed takes no slot")
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

// slotsHeldUnderConcurrency: Hold and Release of one result meet, and so do those of many.
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
