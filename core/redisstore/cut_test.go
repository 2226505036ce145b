package redisstore_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/tokenbucket-go/ratelimit/core"
	"github.com/tokenbucket-go/ratelimit/internal/limitdraw"
	"github.com/tokenbucket-go/ratelimit/internal/limittest"
)

// What comes back under a lower Capacity, and has no room there, is there for
// an override with a higher one.
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

// The example of core/internal/bucket/change.go.
func TestWhatIsUsedStaysUsedWhenALimitIsLoweredAndSetBack(t *testing.T) {
	onBothStores(t, func(t *testing.T, store core.Store, clock *limittest.Clock) {
		right, lowered := limittest.Limiter(t, store, "api", core.PerDay(100)), limittest.Limiter(t, store, "api", core.PerDay(20))
		limittest.Use(t, right, "ann", 70)
		require.EqualValues(t, 0, limittest.Left(t, lowered, "ann"), "nothing is left of 20")
		clock.Move(12 * time.Hour)
		limittest.Use(t, lowered, "ann", 1)
		require.EqualValues(t, 9, limittest.Left(t, lowered, "ann"), "10 have refilled, and one is taken")
		require.EqualValues(t, 39, limittest.Left(t, right, "ann"), "71 are used, of which 10 have refilled")
	})
}

// Definitions on another calendar don't know when a calendar's periods begin,
// also not those before a reservation is due.
func TestACalendarRefillsForOthersOnlyWhenItsBucketIsFull(t *testing.T) {
	onBothStores(t, func(t *testing.T, store core.Store, _ *limittest.Clock) {
		month := core.PerMonth(1).WithName("a").WithBurst(9)
		low, high := limittest.Limiter(t, store, "api", month), limittest.Limiter(t, store, "api", month.WithBurst(11).In(limitdraw.Zone("Europe/Berlin")))
		for _, n := range []int64{2, 9} {
			r, err := low.Reserve(t.Context(), "ann", n)
			require.NoError(t, err)
			require.True(t, r.OK())
		}
		res, err := high.PeekUnits(t.Context(), "ann", core.Units{core.Requests: 1})
		require.NoError(t, err)
		full, err := low.Peek(t.Context(), "ann")
		require.NoError(t, err)
		require.Equal(t, full.ResetAfter, res.RetryAfter, "nothing is there for the other definition before")
	})
}

// Only of a full bucket do the steps begin with the next use. While something
// is cut it is not full, even if its level is.
func TestStepsGoOnWhileTheyPayWhatIsCut(t *testing.T) {
	onBothStores(t, func(t *testing.T, store core.Store, clock *limittest.Clock) {
		step := core.PerHour(1).WithName("a").WithMode(core.Stepped)
		low, high := limittest.Limiter(t, store, "api", step), limittest.Limiter(t, store, "api", step.WithBurst(4))
		require.NoError(t, high.Debit(t.Context(), "ann", 4))
		require.EqualValues(t, 0, limittest.Left(t, low, "ann"))
		clock.Move(150 * time.Minute)
		peek := func() core.Result {
			res, err := high.PeekUnits(t.Context(), "ann", core.Units{core.Requests: 3})
			require.NoError(t, err)
			return res
		}
		res := peek()
		require.EqualValues(t, 2, res.Remaining, "two steps have come")
		require.Equal(t, 30*time.Minute, res.RetryAfter, "the third comes three hours after the change")
		limittest.Use(t, low, "ann", 1)
		require.EqualValues(t, 1, peek().Remaining)
		clock.Move(30 * time.Minute)
		require.EqualValues(t, 2, peek().Remaining, "the third step comes at its time, whatever was taken")
	})
}
