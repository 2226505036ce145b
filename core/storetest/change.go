package storetest

import (
	"time"

	"github.com/tokenbucket-go/ratelimit/core"
)

// A limit that changes keeps what was used, also with two versions in turns, and
// each version decides by its own definition.

func capacityChanges(s *subject) {
	small, large := s.limiter(core.PerHour(10)), s.limiter(core.PerHour(100))
	s.take(small, 4, "a new key")
	s.left(large, "4 of 100 are used", 96)
	s.take(large, 3, "under the larger capacity")
	s.left(small, "7 of 10 are used", 3)
	s.take(small, 3, "under the smaller capacity")
	s.take(large, 90, "what the larger capacity adds")
	s.deny(large, 1, 36*time.Second, "100 of 100 are used")
	s.deny(small, 1, 6*time.Minute, "100 are used of 10")
}

func lowerCapacity(s *subject) {
	slow := core.PerMinute(1).WithBurst(1000)
	right, lowered := s.limiter(slow), s.limiter(slow.WithBurst(100))
	s.take(lowered, 1, "a new key")
	s.take(right, 599, "1 of 1000 is used")
	s.deny(lowered, 1, time.Minute, "600 of 100 are used, which is no debt")
	s.clock.move(time.Minute)
	s.take(lowered, 1, "one has come back")
	s.left(right, "what was cut is used again when the capacity grows", 400)
}

func rateChanges(s *subject) {
	slow := core.Per(1, 10*time.Second).WithBurst(10)
	for name, after := range map[string]core.Limit{"slower": slow, "stepped": slow.WithMode(core.Stepped)} {
		before, changed := s.limiterOf(name, core.PerSecond(1).WithBurst(10)), s.limiterOf(name, after)
		s.take(before, 8, "a new key")
		s.take(changed, 1, "2 are left")
		s.clock.move(10*time.Second - time.Microsecond)
		s.left(changed, "before the new rate brings a token", 1)
		s.clock.move(time.Microsecond)
		s.left(changed, "when the new rate brings a token", 2)
	}
}

func versionsKeepOthersTokens(s *subject) {
	a, b, c := core.PerDay(10).WithName("a"), core.PerDay(100).WithName("b"), atOnce(5)
	all := s.limiter(a, b, c)
	s.take(all, 4, "a new key")
	s.take(s.limiter(b), 10, "a version without two of three limits")
	s.left(all, "after a version without two of three limits", 6, 86, 1)
	s.left(s.limiter(c, b, a), "in another order", 1, 86, 6)
	s.left(s.limiter(core.PerDay(10).WithName("another"), b), "with a new limit", 10, 86)
}
