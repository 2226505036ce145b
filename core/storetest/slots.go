package storetest

import (
	"errors"
	"time"

	"github.com/tokenbucket-go/ratelimit/core"
)

// Never more slots than the capacity are in use, and each comes back once: when
// it is released, or after MaxHold.

// atOnce is n slots with a MaxHold of a minute.
func atOnce(n int) core.Limit { return core.InFlight(n).WithName("at-once").WithMaxHold(time.Minute) }

func slotsInUse(s *subject) {
	day := core.PerDay(100).WithName("day")
	five, two := s.limiter(atOnce(5), day), s.limiter(atOnce(2), day)
	first := s.take(five, 4, "a new key")
	s.deny(five, 2, time.Minute, "4 of 5 are in use")
	s.left(five, "a denial by the slots takes no token", 1, 96)
	s.take(five, 1, "4 of 5 are in use")
	s.deny(two, 1, time.Minute, "5 are in use of a smaller capacity")
	s.no(first.Release(s.Context()))
	s.left(five, "after a release of 4", 4, 95)
	s.left(two, "after a release of 4", 1, 95)
	s.take(two, 1, "one of two is in use")
	s.deny(two, 1, time.Minute, "two of two are in use")
}

func slotReleased(s *subject) {
	l := s.limiter(atOnce(2), core.PerDay(100).WithName("day"))
	first := s.take(l, 1, "a new key")
	s.take(l, 1, "one of two is in use")
	s.deny(l, 1, time.Minute, "two of two are in use")
	again := *first
	s.no(first.Release(s.Context()))
	s.left(l, "a release gives back the slot and no token", 1, 98)
	s.no(again.Release(s.Context()))
	s.left(l, "a second release gives back nothing", 1, 98)
	s.take(l, 1, "a slot that was released")
	s.no(again.Release(s.Context()))
	s.left(l, "a second release gives back nothing", 0, 97)
}

func slotComesBack(s *subject) {
	for _, hold := range []time.Duration{1500 * time.Microsecond, time.Minute, 30 * 24 * time.Hour} {
		l := s.limiterOf(hold.String(), core.InFlight(2).WithMaxHold(hold))
		first := s.take(l, 1, "a new key")
		s.clock.move(hold / 2)
		s.take(l, 1, "one of two is in use")
		s.deny(l, 1, hold-hold/2, "until the first one's MaxHold is over")
		s.deny(l, 2, hold, "until both MaxHolds are over")
		s.clock.move(hold - hold/2 - time.Microsecond)
		s.deny(l, 1, time.Microsecond, "a microsecond before MaxHold is over")
		s.clock.move(time.Microsecond)
		s.take(l, 1, "MaxHold is over")
		s.no(first.Release(s.Context()))
		s.deny(l, 1, hold/2, "the second one is still in use")
		s.clock.move(2 * hold)
		s.left(l, "all MaxHolds are over", 2)
	}
	l := s.limiter(atOnce(40))
	for range 40 {
		s.take(l, 1, "a slot each second")
		s.clock.move(time.Second)
	}
	s.deny(l, 36, 55*time.Second, "until the 36th MaxHold of 40 is over")
}

func holdKeepsSlot(s *subject) {
	l := s.limiter(atOnce(3))
	held := s.take(l, 2, "a new key")
	s.take(l, 1, "a request that is not held")
	s.clock.move(45 * time.Second)
	s.no(held.Hold(s.Context()))
	s.deny(l, 1, 15*time.Second, "Hold takes nothing more")
	s.clock.move(15 * time.Second)
	s.left(l, "the request that is not held is over", 1)
	s.clock.move(45*time.Second - time.Microsecond)
	s.left(l, "a microsecond before a MaxHold since Hold is over", 1)
	s.no(held.Hold(s.Context()))
	s.no(held.Release(s.Context()))
	s.left(l, "a release after Hold gives back all", 3)
	if err := held.Hold(s.Context()); !errors.Is(err, core.ErrSettled) {
		s.broken("Hold after Release: %v, want ErrSettled", err)
	}
}

func lostSlot(s *subject) {
	l := s.limiter(atOnce(2), core.PerDay(100).WithName("day"))
	first, second := s.take(l, 1, "a new key"), s.take(l, 1, "one of two is in use")
	s.clock.move(time.Minute)
	s.take(l, 1, "both MaxHolds are over")
	s.no(first.Hold(s.Context()))
	s.left(l, "Hold takes a lost slot again, and no token", 0, 97)
	if err := second.Hold(s.Context()); !errors.Is(err, core.ErrExpired) {
		s.broken("Hold of a slot that others have: %v, want ErrExpired", err)
	}
	s.no(second.Release(s.Context()))
	s.left(l, "a Hold that fails takes nothing", 0, 97)
	s.no(first.Release(s.Context()))
	s.left(l, "a slot that was taken again is released as any other", 1, 97)
}
