package redisstore_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/tokenbucket-go/ratelimit/core"
	"github.com/tokenbucket-go/ratelimit/internal/limittest"
)

// A limit with a lower Capacity and shorter steps remembers less than was used. The longer step of the other one still has to
// pass.
func TestALowerCapacityDoesNotBringALongerStepForward(t *testing.T) {
	for name, limits := range map[string][2]core.Limit{
		"month and day":              {core.PerMonth(1000), core.PerDay(50)},
		"month and days":             {core.PerMonth(1000), core.PerDay(50).WithMode(core.Aligned)},
		"aligned day and hours":      {core.PerDay(1000).WithMode(core.Aligned), core.PerHour(50).WithMode(core.Aligned)},
		"stepped day and continuous": {core.PerDay(1000).WithMode(core.Stepped), core.PerHour(50)},
	} {
		t.Run(name, func(t *testing.T) {
			onBothStores(t, func(t *testing.T, store core.Store, clock *limittest.Clock) {
				long := limittest.Limiter(t, store, "api", limits[0])
				short, err := long.WithLimits(limits[1])
				require.NoError(t, err)
				limittest.Use(t, long, "ann", 100)
				before, err := long.Peek(t.Context(), "ann")
				require.NoError(t, err)
				require.NoError(t, short.Debit(t.Context(), "ann", 1))
				require.NoError(t, short.Refund(t.Context(), "ann", 8))
				limittest.Use(t, short, "ann", 7)
				after, err := long.Peek(t.Context(), "ann")
				require.NoError(t, err)
				require.EqualValues(t, 900, after.Remaining)
				require.GreaterOrEqual(t, after.ResetAfter, before.ResetAfter, "fewer tokens take no less time to fill the bucket")
				clock.Move(before.ResetAfter - time.Microsecond)
				require.EqualValues(t, 900, limittest.Left(t, long, "ann"), "the step is not over")
				clock.Move(2 * after.ResetAfter)
				require.EqualValues(t, 1000, limittest.Left(t, long, "ann"))
			})
		})
	}
}

// What comes back under a lower Capacity, and has no room there, is there for an override with a higher one.
func TestWhatALowerCapacityHasNoRoomForComesBackToAnOverride(t *testing.T) {
	for name, lend := range map[string]func(*testing.T, *core.Limiter) (back func() error){
		"a reservation is canceled": func(t *testing.T, l *core.Limiter) func() error {
			r, err := l.Reserve(t.Context(), "ann", 2)
			require.NoError(t, err)
			return func() error { return r.Cancel(t.Context()) }
		},
		"a decision is undone": func(t *testing.T, l *core.Limiter) func() error {
			res, err := l.AllowN(t.Context(), "ann", 2)
			require.NoError(t, err)
			return func() error { return res.Undo(t.Context()) }
		},
		"tokens are refunded": func(t *testing.T, l *core.Limiter) func() error {
			limittest.Use(t, l, "ann", 2)
			return func() error { return l.Refund(t.Context(), "ann", 2) }
		},
	} {
		t.Run(name, func(t *testing.T) {
			onBothStores(t, func(t *testing.T, store core.Store, _ *limittest.Clock) {
				low := core.PerHour(2).WithName("a")
				plain := limittest.Limiter(t, store, "api", low)
				raised, err := core.NewLimiter(store, core.Policy{
					Name: "api", Limits: []core.Limit{low}, Overrides: map[string][]core.Limit{"ann": {core.PerHour(5).WithName("a")}},
				}, silent)
				require.NoError(t, err)
				back := lend(t, plain)
				limittest.Use(t, raised, "ann", 1)
				require.NoError(t, back())
				require.EqualValues(t, 4, limittest.Left(t, raised, "ann"))
			})
		})
	}
}

// The example of core/internal/bucket/older.go.
func TestWhatIsUsedStaysUsedWhenALimitIsLoweredAndSetBack(t *testing.T) {
	onBothStores(t, func(t *testing.T, store core.Store, clock *limittest.Clock) {
		right, lowered := limittest.Limiter(t, store, "api", core.PerDay(100)), limittest.Limiter(t, store, "api", core.PerDay(20))
		limittest.Use(t, right, "ann", 70)
		require.EqualValues(t, 0, limittest.Left(t, lowered, "ann"), "nothing is left of 20")
		clock.Move(12 * time.Hour)
		limittest.Use(t, lowered, "ann", 1)
		require.EqualValues(t, 9, limittest.Left(t, lowered, "ann"), "10 have refilled, and one is taken")
		require.EqualValues(t, 79, limittest.Left(t, right, "ann"), "71 are used, of which 50 have refilled")
	})
}
