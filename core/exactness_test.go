package core_test

import (
	"context"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/tokenbucket-go/ratelimit/core"
	"github.com/tokenbucket-go/ratelimit/internal/limitdraw"
	"github.com/tokenbucket-go/ratelimit/internal/limittest"
)

// TestNoWindowAdmitsMoreThanMaxIn checks every window that begins and ends with
// an allowed request of a greedy client. No other window can hold more. The
// clock shows whole microseconds, as a store counts time.
func TestNoWindowAdmitsMoreThanMaxIn(t *testing.T) {
	t.Run("of limits that refill in whole parts of a token every microsecond", func(t *testing.T) {
		rapid.Check(t, noWindowAdmitsMoreThanMaxIn(limitdraw.Limit.Filter(toTheMicrosecond)))
	})
	t.Run("of any limits", func(t *testing.T) {
		rapid.Check(t, noWindowAdmitsMoreThanMaxIn(limitdraw.Limit))
	})
}

func noWindowAdmitsMoreThanMaxIn(draw *rapid.Generator[core.Limit]) func(*rapid.T) {
	ctx := context.Background()
	return func(t *rapid.T) {
		clock := limitdraw.Clock(t)
		limits := limitdraw.Limits(draw).Draw(t, "limits")
		l := core.Must(core.NewLimiter(core.NewMemoryStore(core.WithClock(clock.Now)), core.Policy{Name: "api", Limits: limits}))
		type event struct {
			at   int64 // µs
			cost int64
		}
		var admitted []event
		retry := time.Duration(0)
		for range rapid.IntRange(2, 40).Draw(t, "requests") {
			clock.Move(max(0, limitdraw.Move(limits, retry).Draw(t, "move")).Truncate(time.Microsecond))
			cost := limitdraw.Cost(limits).Draw(t, "cost")
			if rapid.Bool().Draw(t, "greedy") { // takes all tokens left
				peek := core.Must(l.Peek(ctx, "user"))
				cost = peek.Remaining
				for _, limit := range peek.Limits() {
					cost = min(cost, limit.Remaining)
				}
			}
			res := core.Must(l.AllowN(ctx, "user", cost))
			if res.Allowed {
				admitted = append(admitted, event{clock.Now().UnixMicro(), cost})
			}
			retry = res.RetryAfter
		}
		for first := range admitted {
			sum := int64(0)
			for _, last := range admitted[first:] {
				sum += last.cost
				window := time.Duration(last.at-admitted[first].at) * time.Microsecond
				for _, limit := range limits {
					if most := limit.MaxIn(window); sum > most {
						t.Fatalf("%d tokens were admitted within %v, more than the %d of MaxIn: %+v", sum, window, most, limit)
					}
				}
			}
		}
	}
}

// TestRetryAfterIsExact checks a client that sends the only requests.
func TestRetryAfterIsExact(t *testing.T) {
	ctx := context.Background()
	rapid.Check(t, func(t *rapid.T) {
		clock := limitdraw.Clock(t)
		limits := limitdraw.Limits(limitdraw.Limit).Draw(t, "limits")
		l := core.Must(core.NewLimiter(core.NewMemoryStore(core.WithClock(clock.Now)), core.Policy{Name: "api", Limits: limits}))
		ask := func(cost int64) core.Result {
			res := core.Must(l.AllowN(ctx, "user", cost))
			return res
		}
		for range rapid.IntRange(1, 20).Draw(t, "requests") {
			clock.Move(limitdraw.Move(limits, 0).Draw(t, "move"))
			if rapid.IntRange(0, 4).Draw(t, "back") == 0 {
				clock.Move(-limitdraw.Back.Draw(t, "back by"))
			}
			cost := limitdraw.Cost(limits).Draw(t, "cost")
			res := ask(cost)
			if res.Allowed || res.RetryAfter.Microseconds() >= longestDelay { // or Never
				continue
			}
			before := clock.Now()
			clock.Move(res.RetryAfter - time.Microsecond)
			if !clock.Now().Equal(before.Add(res.RetryAfter - time.Microsecond)) {
				return // beyond the range of the clock
			}
			if early := ask(cost); early.Allowed || early.RetryAfter != time.Microsecond {
				t.Fatalf("1µs before RetryAfter (%v) a cost of %d is allowed %v, retry after %v; want denied, 1µs: %+v",
					res.RetryAfter, cost, early.Allowed, early.RetryAfter, limits)
			}
			clock.Move(time.Microsecond)
			if !clock.Now().Equal(before.Add(res.RetryAfter)) {
				return // beyond the range of the clock
			}
			if late := ask(cost); !late.Allowed {
				t.Fatalf("after RetryAfter (%v) a cost of %d is denied, retry after %v: %+v", res.RetryAfter, cost, late.RetryAfter, limits)
			}
		}
	})
}

// A limit that gains no whole number of units every microsecond must still be
// as smooth as MaxIn promises. TestNoWindowAdmitsMoreThanMaxIn found this case.
func TestContinuousRefillIsEvenAtAnyRate(t *testing.T) {
	for name, limit := range map[string]core.Limit{
		"an interval of odd nanoseconds": {Capacity: 2_000_000, RefillRate: 1e6, RefillInterval: time.Second + 7},
		"a rate of many decimals":        {Capacity: 1_000_000, RefillRate: 333_333.333333, RefillInterval: time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			clock := limittest.NewClock()
			l := limittest.Limiter(t, core.NewMemoryStore(core.WithClock(clock.Now)), "api", limit)
			take := func(cost int64) int64 {
				res := core.Must(l.AllowN(t.Context(), "user", cost))
				if !res.Allowed {
					return 0
				}
				return cost
			}
			take(1)
			clock.Move(10*time.Second + 998*time.Microsecond) // the bucket is full again
			admitted := take(limit.Capacity)
			const window = 10 * time.Microsecond
			clock.Move(window)
			peek := core.Must(l.Peek(t.Context(), "user"))
			admitted += take(peek.Remaining)
			if most := limit.MaxIn(window); admitted > most {
				t.Errorf("%d tokens were admitted within %v, more than the %d of MaxIn", admitted, window, most)
			}
		})
	}
}
