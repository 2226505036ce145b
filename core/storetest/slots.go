package storetest

import (
	"errors"
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
	{"two charges of one bucket hold and release their slots together", slotsSplit},
	{"a settlement leaves slots out", slotsSettled},
	{"as many slots as are there are taken", slotsAtMost},
	{"of buckets that are charged together one that denies keeps the slots of all", slotsJointly},
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
