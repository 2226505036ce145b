package storetest

import (
	"time"

	"github.com/tokenbucket-go/ratelimit/core"
)

var clockRules = []storeRule{
	{"a clock that steps back takes no tokens away", stepBackKeepsTokens},
	{"a clock that steps back gives no tokens", stepBackGivesNothing},
	{"a clock that steps back never stalls a bucket", stepBackNeverStalls},
	{"tokens reserved at once are used, also when the clock steps back", stepBackAfterReserving},
}

var modes = []core.Mode{core.Continuous, core.Stepped, core.Aligned}

func stepBackKeepsTokens(s *subject) {
	for _, mode := range modes {
		l := s.limiterOf(mode.String(), core.PerMinute(10).WithMode(mode))
		s.grants(l, 4, 6, mode.String())
		s.clock.move(-time.Hour)
		s.holds(l, 6, mode.String()+": tokens survive a clock that steps back an hour")
		s.grants(l, 6, 0, mode.String()+": and may be taken")
	}
}

func stepBackGivesNothing(s *subject) {
	for _, mode := range modes {
		l := s.limiterOf(mode.String(), core.PerMinute(10).WithMode(mode))
		s.grants(l, 10, 0, mode.String())
		for range 5 {
			s.clock.move(-10 * time.Hour)
			if res := s.take(l, 1); res.Allowed || res.Remaining != 0 {
				s.Errorf("%v: after the clock stepped back an empty bucket is allowed %v, %d left; want denied, 0 left",
					mode, res.Allowed, res.Remaining)
			}
		}
	}
}

func stepBackNeverStalls(s *subject) {
	for _, mode := range modes {
		l := s.limiterOf(mode.String(), core.PerMinute(10).WithMode(mode))
		s.grants(l, 10, 0, mode.String())
		s.clock.move(-time.Hour)
		res := s.take(l, 1)
		if res.Allowed || res.RetryAfter > time.Minute {
			s.Errorf("%v: an hour back, the next token comes in %v; want within the minute", mode, res.RetryAfter)
			continue
		}
		s.clock.move(res.RetryAfter)
		if !s.take(l, 1).Allowed {
			s.Errorf("%v: tokens must come back at once after a step back, not when the old time is reached again: "+
				"the instant of the step must be stored even though the request is denied", mode)
		}
	}
}

func stepBackAfterReserving(s *subject) {
	for _, mode := range modes {
		s.clock.at(start.Add(time.Minute).Truncate(time.Minute)) // an Aligned limit refills here
		l := s.limiterOf(mode.String(), core.Limit{Capacity: 2, RefillRate: 1, RefillInterval: time.Minute, Mode: mode})
		r, err := l.Reserve(s.Context(), key, 2)
		s.no(err)
		if r.Delay() != 0 {
			s.Fatalf("%v: a reservation of all tokens of a full bucket waits for %v", mode, r.Delay())
		}
		s.clock.move(-time.Second)
		s.take(l, 2) // notes the step
		s.clock.move(time.Second)
		res := s.take(l, 2)
		s.clock.move(res.ResetAfter)
		s.holds(l, 2, mode.String()+": a bucket is full after its ResetAfter, though tokens were reserved at once before the clock stepped back")
	}
}
