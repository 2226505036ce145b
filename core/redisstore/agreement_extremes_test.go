package redisstore_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/tokenbucket-go/ratelimit/core"
	"github.com/tokenbucket-go/ratelimit/core/redisstore"
	"github.com/tokenbucket-go/ratelimit/internal/limitdraw"
	"github.com/tokenbucket-go/ratelimit/internal/limittest"
	"github.com/tokenbucket-go/ratelimit/internal/redistest"
)

// requireAgreement has both stores play the same, from an instant on, and
// compares what play returns.
func requireAgreement[T any](t *testing.T, from time.Time, play func(store core.Store, clock *limittest.Clock) T) {
	t.Helper()
	clock := limittest.ClockAt(from)
	inMemory := play(core.NewMemoryStore(core.WithClock(clock.Now)), clock)
	client := redistest.Client(t)
	client.AddHook(&redistest.Keeper{})
	clock = limittest.ClockAt(from)
	onRedis := play(redisstore.New(client, redisstore.WithPrefix(redistest.Prefix()), core.WithClock(clock.Now), longTimeout), clock)
	require.Equal(t, inMemory, onRedis, "from %v", from)
}

// The steps of a bucket go on as before, whatever the instant is at which
// nothing is cut any more.
func TestStoresAgreeOnStepsWhileWhatIsCutForCenturiesIsReserved(t *testing.T) {
	high := core.Limit{Name: "a", Capacity: 40, RefillRate: 1, RefillInterval: 2 * 365 * 24 * time.Hour, Mode: core.Stepped}
	low := core.Limit{Name: "a", Capacity: 1, RefillRate: 1, RefillInterval: 5*365*24*time.Hour + time.Microsecond, Mode: core.Stepped}
	for offset := range time.Duration(4) {
		requireAgreement(t, limittest.NewClock().Now().Add(offset*time.Microsecond), func(store core.Store, clock *limittest.Clock) (got []seen) {
			limittest.Use(t, limittest.Limiter(t, store, "api", high), "k", 40)
			l := limittest.Limiter(t, store, "api", low)
			for range 3 {
				r := reserve(t, l, 1)
				got = append(got, see(r.Result(), nil), see(l.Peek(t.Context(), "k")))
				clock.Move(r.Delay() / 3)
			}
			return append(got, see(l.Allow(t.Context(), "k")))
		})
	}
}

// A delay of which a call has not sent all periods is asked for again, before
// anything is stored.
func TestStoresAgreeOnADelayOfMorePeriodsWhileWhatIsCutForCenturiesIsReserved(t *testing.T) {
	monthly := core.Limit{Name: "a", Capacity: 1000, RefillRate: 1, RefillInterval: core.Month, Mode: core.Aligned, Location: time.UTC}
	quarterly := core.Limit{Name: "a", Capacity: 10, RefillRate: 1, RefillInterval: 3 * core.Month, Mode: core.Aligned, Location: limitdraw.Zone("Europe/Berlin")}
	requireAgreement(t, limittest.NewClock().Now(), func(store core.Store, _ *limittest.Clock) (got []seen) {
		limittest.Use(t, limittest.Limiter(t, store, "api", monthly), "k", 1000)
		l := limittest.Limiter(t, store, "api", quarterly)
		for range 5 {
			got = append(got, see(reserve(t, l, 1).Result(), nil))
		}
		return got
	})
}

// A step that brings more than the Capacity pays no more than that of a debt,
// and all of what is cut as soon as the debt is paid. So it does not matter
// whether somebody looks in between, and what is promised happens.
func TestLargeStepsPayADebtAndThenWhatIsCut(t *testing.T) {
	low := core.Limit{Name: "a", Capacity: 2, RefillRate: 30, RefillInterval: time.Hour, Mode: core.Stepped}
	onBothStores(t, func(t *testing.T, store core.Store, clock *limittest.Clock) {
		high, cut := limittest.Limiter(t, store, "api", low.WithBurst(10)), limittest.Limiter(t, store, "api", low)
		require.NoError(t, high.Debit(t.Context(), "k", 20))
		peek(t, cut) // 10 are owed, and 8 are cut
		for _, passed := range []time.Duration{0, 3 * time.Hour, 2*time.Hour + 30*time.Minute, 0} {
			clock.Move(passed)
			res, err := high.PeekUnits(t.Context(), "k", core.Units{core.Requests: 1})
			require.NoError(t, err)
			require.Equal(t, 6*time.Hour-clock.Now().Sub(limittest.NewClock().Now()), res.ResetAfter, "5 steps pay the debt, and one the rest")
		}
		clock.Move(30 * time.Minute)
		require.EqualValues(t, 10, limittest.Left(t, high, "k"))
	})
}

// A clock that steps back within a period moves no reservation, however far
// ahead it is due.
func TestStoresAgreeOnAReservationFarAheadWhenTheClockStepsBack(t *testing.T) {
	quarterly := core.Limit{Name: "a", Capacity: 10, RefillRate: 1, RefillInterval: 3 * core.Month, Mode: core.Aligned, Location: time.UTC}
	slow := core.Limit{Name: "b", Capacity: 1, RefillRate: 1, RefillInterval: 70 * 365 * 24 * time.Hour}
	for offset := range time.Duration(4) {
		requireAgreement(t, limittest.Latest.Add(-24*time.Hour+offset*time.Microsecond), func(store core.Store, clock *limittest.Clock) (got []seen) {
			l := limittest.Limiter(t, store, "api", quarterly, slow)
			limittest.Use(t, l, "k", 1)
			r := reserve(t, l, 1)
			clock.Move(-time.Second)
			later, err := limittest.Limiter(t, store, "api", quarterly).Reserve(t.Context(), "k", 1) // due with the first
			require.NoError(t, err)
			require.Equal(t, r.Delay()+time.Second, later.Delay())
			return append(got, see(l.Allow(t.Context(), "k")))
		})
	}
}

// What is cut of the largest Capacity is rounded, and the same whoever looks in
// between.
func TestStoresAgreeOnADelayWhileTheMostIsCut(t *testing.T) {
	high := core.Limit{Name: "a", Capacity: 999_999_999_999_999, RefillRate: 1e15, RefillInterval: time.Hour}
	low := core.Limit{Name: "a", Capacity: 1, RefillRate: 1, RefillInterval: 10 * time.Second}
	requireAgreement(t, limittest.NewClock().Now(), func(store core.Store, clock *limittest.Clock) (got []seen) {
		all, cut := limittest.Limiter(t, store, "api", high), limittest.Limiter(t, store, "api", low)
		limittest.Use(t, all, "k", high.Capacity)
		got = append(got, see(cut.Peek(t.Context(), "k")))
		for i := range int64(50) {
			clock.Move(700 * time.Millisecond)
			got = append(got, see(all.PeekUnits(t.Context(), "k", core.Units{core.Requests: 5 + i})))
		}
		return got
	})
}
