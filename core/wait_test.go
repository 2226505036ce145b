package core_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/tokenbucket-go/ratelimit/core"
	"github.com/tokenbucket-go/ratelimit/core/internal/bucket"
	"github.com/tokenbucket-go/ratelimit/core/store"
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
		require.ErrorIs(t, l.Wait(short, "smtp"), core.ErrDeadline, "a minute's wait with 1µs too little left")
		assert.Zero(t, time.Since(began), "it returns at once")
		enough, cancel := context.WithTimeout(t.Context(), time.Minute+time.Microsecond)
		defer cancel()
		require.NoError(t, l.Wait(enough, "smtp"), "a minute's wait with 1µs to spare")
		assert.Equal(t, time.Minute, time.Since(began))
	})
}

// A Wait whose context ends returns soon, however slow the store is, and then
// its tokens come back.
func TestCanceledWaitGivesItsTokensBack(t *testing.T) {
	for _, slow := range []time.Duration{0, time.Second} {
		synctest.Test(t, func(t *testing.T) {
			s := newAskedStore()
			s.before = func(r store.Request) {
				if r.Action == bucket.Cancel {
					time.Sleep(slow) // in the bubble, so it takes no real time
				}
			}
			l := limittest.Limiter(t, s, "mail", core.PerMinute(1))
			limittest.Use(t, l, "smtp", 1)
			ctx, cancel := context.WithCancel(t.Context())
			ended := make(chan error)
			go func() { ended <- l.Wait(ctx, "smtp") }()
			synctest.Wait()
			time.Sleep(20 * time.Second)
			canceled := time.Now()
			cancel()
			require.ErrorIs(t, <-ended, context.Canceled)
			assert.LessOrEqual(t, time.Since(canceled), 50*time.Millisecond, "it returns soon, however slow the store is")
			time.Sleep(2*time.Second - time.Since(canceled))
			synctest.Wait()
			r := core.Must(l.Reserve(t.Context(), "smtp", 1))
			assert.Equal(t, 38*time.Second, r.Delay(), "after a canceled wait the next delay is as without it")
		})
	}
}

// Reserve documents that twice the Capacity can always be promised.
func TestTwiceTheCapacityCanBePromised(t *testing.T) {
	for name, limit := range map[string]core.Limit{
		"round numbers": core.PerDay(100_000),
		"a prime":       core.PerDay(100_003),
		"a large one":   core.PerSecond(int64(900_000_000_000_000)),
	} {
		synctest.Test(t, func(t *testing.T) {
			l := limittest.Limiter(t, core.NewMemoryStore(), "jobs", limit)
			first := core.Must(l.Reserve(t.Context(), "batch", limit.Capacity)) // a full bucket, and as much again
			second := core.Must(l.Reserve(t.Context(), "batch", limit.Capacity))
			assert.True(t, first.Allowed && second.Allowed, "%s: twice the Capacity can always be promised", name)
			assert.Less(t, first.Delay(), second.Delay(), "%s: reservations queue in the order of the calls", name)
			ctx, cancel := context.WithCancel(t.Context())
			time.AfterFunc(time.Millisecond, cancel)
			assert.NotErrorIs(t, l.WaitN(ctx, "batch", limit.Capacity), core.ErrDeadline, "%s: a context without a deadline can't be past it", name)
		})
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
		l := limittest.Limiter(t, core.NewMemoryStore(core.WithClock(limittest.NewClock().Now)), "jobs", rule.limit.WithMode(core.Aligned))
		allow(t, l, rule.limit.Capacity)
		ahead := map[time.Duration]bool{}
		for range 100 {
			r := core.Must(l.Reserve(t.Context(), "k", 1))
			if !r.Allowed {
				break
			}
			ahead[r.Delay()] = true
		}
		assert.Len(t, ahead, rule.ahead, "%s: periods in which reservations are due", name)
	}
}
