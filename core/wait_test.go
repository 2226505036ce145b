package core_test

import (
	"context"
	"errors"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tokenbucket-go/ratelimit/core"
	"github.com/tokenbucket-go/ratelimit/internal/limittest"
)

// In a synctest bubble time advances only when every goroutine waits, and
// exactly as far as needed.

func TestWaitersAreServedInOrder(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := limittest.Limiter(t, core.NewMemoryStore(), "mail", core.PerMinute(1))
		began := time.Now()
		type served struct {
			who   int
			after time.Duration
		}
		order := make(chan served, 5)
		for who := range 5 {
			go func() {
				if err := l.Wait(t.Context(), "smtp"); err != nil {
					t.Error(err)
				}
				order <- served{who, time.Since(began)}
			}()
			synctest.Wait() // until the goroutine waits or is served
		}
		for who := range 5 {
			if got, want := <-order, (served{who, time.Duration(who) * time.Minute}); got != want {
				t.Errorf("waiters must be served in the order of their calls, one a minute: got %+v, want %+v", got, want)
			}
		}
	})
}

func TestWaitBeyondTheDeadlineFailsAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := limittest.Limiter(t, core.NewMemoryStore(), "mail", core.PerMinute(1))
		limittest.Use(t, l, "smtp", 1)
		began := time.Now()
		short, cancel := context.WithTimeout(t.Context(), time.Minute-time.Microsecond)
		defer cancel()
		if err := l.Wait(short, "smtp"); !errors.Is(err, core.ErrDeadline) || time.Since(began) != 0 {
			t.Errorf("a minute's wait with 1µs too little left = %v after %v, want ErrDeadline at once", err, time.Since(began))
		}
		enough, cancel := context.WithTimeout(t.Context(), time.Minute+time.Microsecond)
		defer cancel()
		if err := l.Wait(enough, "smtp"); err != nil || time.Since(began) != time.Minute {
			t.Errorf("a minute's wait with 1µs to spare = %v after %v, want nil after 1m", err, time.Since(began))
		}
	})
}

func TestCanceledWaitGivesItsTokensBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := limittest.Limiter(t, core.NewMemoryStore(), "mail", core.PerMinute(1))
		limittest.Use(t, l, "smtp", 1)
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan error)
		go func() { ended <- l.Wait(ctx, "smtp") }()
		synctest.Wait()
		time.Sleep(20 * time.Second) // in the bubble, so it takes no real time
		cancel()
		if err := <-ended; !errors.Is(err, context.Canceled) {
			t.Errorf("Wait whose context is canceled = %v, want context.Canceled", err)
		}
		r, err := l.Reserve(t.Context(), "smtp", 1)
		if err != nil || r.Delay() != 40*time.Second {
			t.Errorf("after a canceled wait the next delay is %v, %v; want 40s, as without it", r.Delay(), err)
		}
	})
}

// Reserve documents that twice the Capacity can always be promised.
func TestTwiceTheCapacityCanBePromised(t *testing.T) {
	for name, limit := range map[string]core.Limit{
		"round numbers": core.PerDay(100_000),
		"a prime":       core.PerDay(100_003),
		"a large one":   core.PerSecond(int64(900_000_000_000_000)),
	} {
		clock := limittest.NewClock()
		l := limittest.Limiter(t, core.NewMemoryStore(core.WithClock(clock.Now)), "jobs", limit)
		var delays []time.Duration
		for range 2 { // a full bucket, and as much again
			r, err := l.Reserve(t.Context(), "batch", limit.Capacity)
			if err != nil {
				t.Fatal(err)
			}
			delays = append(delays, r.Delay())
			if !r.Allowed {
				t.Errorf("%s, %v: twice the Capacity can always be promised; refused after delays of %v", name, limit, delays)
				break
			}
		}
		if !slices.IsSorted(delays) {
			t.Errorf("%s: reservations must queue in the order of the calls: %v", name, delays)
		}
		if err := l.WaitN(cancelled(t), "batch", limit.Capacity); errors.Is(err, core.ErrDeadline) {
			t.Errorf("%s: a context without a deadline can't be past it: %v", name, err)
		}
	}
}

// Reserve documents how far ahead a calendar promises.
func TestPeriodsThatCanBePromised(t *testing.T) {
	for name, rule := range map[string]struct {
		limit core.Limit
		ahead int
	}{
		"a month":         {core.PerMonth(1), 3},
		"five months":     {core.PerMonth(1).WithBurst(5), 7},
		"half a month":    {core.PerMonth(2).WithBurst(1), 3},
		"a week and more": {core.PerWeek(2).WithBurst(3), 4},
	} {
		clock := limittest.NewClock()
		l := limittest.Limiter(t, core.NewMemoryStore(core.WithClock(clock.Now)), "jobs", rule.limit.WithMode(core.Aligned))
		limittest.Use(t, l, "batch", rule.limit.Capacity)
		ahead := map[time.Duration]bool{}
		for range 100 {
			r, err := l.Reserve(t.Context(), "batch", 1)
			if err != nil {
				t.Fatal(err)
			}
			if !r.Allowed {
				break
			}
			ahead[r.Delay()] = true
		}
		if len(ahead) != rule.ahead {
			t.Errorf("%s: reservations are due in %d periods, want %d", name, len(ahead), rule.ahead)
		}
	}
}

// cancelled is a context without a deadline that ends as soon as something
// waits for it, so that WaitN returns.
func cancelled(t *testing.T) context.Context {
	ctx, cancel := context.WithCancel(t.Context())
	return &endsWhenWaitedOn{ctx, cancel}
}

type endsWhenWaitedOn struct {
	context.Context
	cancel context.CancelFunc
}

func (c *endsWhenWaitedOn) Done() <-chan struct{} {
	c.cancel()
	return c.Context.Done()
}
