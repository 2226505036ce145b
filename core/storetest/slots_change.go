package storetest

import (
	"time"

	"github.com/tokenbucket-go/ratelimit/core"
)

// This file has the rules on slots while limits, versions and clocks change.

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

// slotsBackwards: a fail-over to a server whose clock is behind leaves a slot
// as much time as it had at the last write.
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
