package storetest

import (
	"context"
	"errors"
	"runtime"
	"time"

	"github.com/tokenbucket-go/ratelimit/core"
)

var takeRules = []storeRule{
	{"a new key is full", newKeyIsFull},
	{"a granted request takes its cost", grantTakesCost},
	{"a denied request takes nothing", denialTakesNothing},
	{"of several limits all give or none", allOrNothing},
	{"a cost of 0 takes nothing", peekTakesNothing},
	{"a cost above the capacity never passes", aboveCapacityNeverPasses},
	{"a negative cost is an error and takes nothing", negativeCost},
	{"a request whose context has ended takes nothing", endedContext},
	{"many limits are kept together", manyLimits},
}

func newKeyIsFull(s *subject) {
	l := s.limiter(core.PerMinute(10))
	res := s.take(l, 0)
	if !res.Allowed || res.Remaining != 10 || res.ResetAfter != 0 {
		s.Errorf("a new key must be full: allowed %v, %d of 10 left, full in %v", res.Allowed, res.Remaining, res.ResetAfter)
	}
	s.grants(l, 10, 0, "a new key grants its whole capacity at once")
	s.denies(l, 1, 0, 6*time.Second, "and not one token more")
}

func grantTakesCost(s *subject) {
	l := s.limiter(core.PerMinute(10))
	s.grants(l, 3, 7, "3 of 10 leave 7")
	s.grants(l, 1, 6, "one more leaves 6")
	s.grants(l, 6, 0, "the last may be taken")
	if res := s.take(l, 0); res.ResetAfter != time.Minute {
		s.Errorf("an empty bucket of 10 a minute is full in %v, want 1m", res.ResetAfter)
	}
}

func denialTakesNothing(s *subject) {
	l := s.limiter(core.PerMinute(10))
	s.grants(l, 8, 2, "8 of 10 leave 2")
	for range 3 {
		s.denies(l, 3, 2, 6*time.Second, "a denial takes nothing, however often it is repeated")
	}
	s.grants(l, 2, 0, "what a denial left may be taken")
}

func allOrNothing(s *subject) {
	l := s.limiter(core.PerMinute(10).WithName("minute"), core.PerHour(3).WithName("hour"))
	s.grants(l, 3, 0, "3 pass both limits")
	for range 3 {
		res := s.take(l, 1)
		limits := res.Limits()
		if res.Allowed || len(limits) != 2 {
			s.Fatalf("the hour is used up: allowed %v with %d limits, want denied with 2", res.Allowed, len(limits))
		}
		if limits[0].Remaining != 7 || limits[0].Violated {
			s.Errorf("a denial by the hour must take nothing from the minute: %d left, violated %v; want 7, false",
				limits[0].Remaining, limits[0].Violated)
		}
		if limits[1].Remaining != 0 || !limits[1].Violated || limits[1].RetryAfter != 20*time.Minute {
			s.Errorf("the hour denies: %d left, violated %v, retry after %v; want 0, true, 20m",
				limits[1].Remaining, limits[1].Violated, limits[1].RetryAfter)
		}
	}
}

func peekTakesNothing(s *subject) {
	l := s.limiter(core.PerMinute(10))
	for range 20 {
		s.grants(l, 0, 10, "a cost of 0 is granted and takes nothing from a full bucket")
	}
	s.grants(l, 10, 0, "the bucket is full after any number of peeks")
	s.grants(l, 0, 0, "a cost of 0 is granted by an empty bucket")
}

func aboveCapacityNeverPasses(s *subject) {
	l := s.limiter(core.PerMinute(10).WithName("minute"), core.PerHour(3).WithName("hour"))
	for _, cost := range []int64{4, 11, 1 << 60} {
		s.denies(l, cost, 3, core.Never, "a cost above a capacity is denied for ever")
	}
	s.grants(l, 3, 0, "what could never pass took nothing")
}

func negativeCost(s *subject) {
	l := s.limiter(core.PerMinute(10))
	s.grants(l, 5, 5, "5 of 10")
	if res, err := l.AllowN(s.Context(), key, -1); !errors.Is(err, core.ErrCost) || res.Allowed {
		s.Errorf("AllowN(-1) = allowed %v, %v; want ErrCost", res.Allowed, err)
	}
	if err := l.Refund(s.Context(), key, -1); !errors.Is(err, core.ErrCost) {
		s.Errorf("Refund(-1) = %v; want ErrCost", err)
	}
	s.holds(l, 5, "a negative cost changes nothing")
}

func endedContext(s *subject) {
	l := s.limiter(core.PerMinute(10))
	ended, cancel := context.WithCancel(s.Context())
	cancel()
	for range 3 {
		if res, err := l.Allow(ended, key); !errors.Is(err, context.Canceled) || res.Allowed {
			s.Errorf("Allow with a cancelled context = allowed %v, %v; want context.Canceled", res.Allowed, err)
		}
	}
	s.holds(l, 10, "a request whose context has ended takes nothing")
}

func manyLimits(s *subject) {
	var limits []core.Limit
	for n := range 12 {
		limits = append(limits, core.Limit{Capacity: int64(100 + n), RefillRate: 1, RefillInterval: time.Duration(n+1) * time.Minute})
	}
	l := s.limiter(limits...)
	s.grants(l, 40, 60, "12 limits grant together")
	for i, limit := range s.take(l, 0).Limits() {
		if want := int64(60 + i); limit.Remaining != want {
			s.Errorf("limit %d of 12 has %d tokens left, want %d", i, limit.Remaining, want)
		}
	}
}

// The clock stands still while a limiter waits in real time, so no rule waits
// to the end.
var waitRules = []storeRule{
	{"a wait for tokens that are there ends at once", waitForNothing},
	{"a wait past the deadline is refused at once and takes nothing", waitPastDeadline},
	{"a wait that can never end is refused at once", waitForEver},
	{"a wait that is cancelled gives its tokens back", waitCancelled},
}

func waitForNothing(s *subject) {
	l := s.limiter(core.PerHour(10))
	s.no(l.WaitN(s.Context(), key, 4))
	s.holds(l, 6, "a wait takes its tokens")
}

func waitPastDeadline(s *subject) {
	l := s.limiter(core.PerHour(1))
	s.grants(l, 1, 0, "all")
	soon, cancel := context.WithTimeout(s.Context(), 30*time.Minute)
	defer cancel()
	for range 3 {
		if err := l.Wait(soon, key); !errors.Is(err, core.ErrDeadline) {
			s.Fatalf("Wait of an hour with 30 minutes left = %v, want ErrDeadline", err)
		}
	}
	s.denies(l, 1, 0, time.Hour, "a refused wait promises nothing")
}

func waitForEver(s *subject) {
	l := s.limiter(core.PerHour(10))
	if err := l.WaitN(s.Context(), key, 11); !errors.Is(err, core.ErrCapacity) {
		s.Fatalf("WaitN(11) of 10 = %v, want ErrCapacity", err)
	}
	s.holds(l, 10, "a wait that can never end takes nothing")
}

func waitCancelled(s *subject) {
	l := s.limiter(core.PerHour(1))
	s.grants(l, 1, 0, "all")
	ctx, cancel := context.WithCancel(s.Context())
	defer cancel()
	ended := make(chan error, 1)
	go func() { ended <- l.Wait(ctx, key) }()
	giveUp := time.After(10 * time.Second)
	for s.take(l, 0).ResetAfter == time.Hour { // until the wait has its place in the queue
		select {
		case err := <-ended:
			s.Fatalf("Wait for an hour ended at once: %v", err)
		case <-giveUp:
			s.Fatal("a wait must take its place in the queue")
		default:
			runtime.Gosched()
		}
	}
	s.denies(l, 1, 0, 2*time.Hour, "a wait takes its place in the queue")
	cancel()
	if err := <-ended; !errors.Is(err, context.Canceled) {
		s.Errorf("Wait whose context was cancelled = %v, want context.Canceled", err)
	}
	for s.take(l, 0).ResetAfter != time.Hour { // Wait waits for a slow store only so long
		select {
		case <-giveUp:
			s.Fatal("a canceled wait must give its place back")
		default:
			runtime.Gosched()
		}
	}
	s.denies(l, 1, 0, time.Hour, "a canceled wait gives its place back")
}
