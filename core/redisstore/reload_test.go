package redisstore_test

import (
	"cmp"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/tokenbucket-go/ratelimit/core"
	"github.com/tokenbucket-go/ratelimit/core/redisstore"
	"github.com/tokenbucket-go/ratelimit/internal/limittest"
	"github.com/tokenbucket-go/ratelimit/internal/redistest"
)

// Tests of rolling reloads: a process that has an override and one that does
// not have it yet decide the same key.

// exception returns a limiter whose policy has other limits for bob.
func exception(t testing.TB, store core.Store, common, bob core.Limit) *core.Limiter {
	t.Helper()
	l, err := core.NewLimiter(store, core.Policy{Name: "api", Limits: []core.Limit{common}, Overrides: map[string][]core.Limit{"bob": {bob}}})
	require.NoError(t, err)
	return l
}

func TestRaisedLimitHoldsWhileOldProcessesDecide(t *testing.T) {
	for name, limits := range map[string][2]core.Limit{
		"month":                {core.PerMonth(1000), core.PerMonth(2000)},
		"month, lower rate":    {core.PerMonth(1000), core.PerMonth(1000).WithBurst(2000)},
		"continuous":           {core.PerHour(1000), core.PerHour(2000)},
		"continuous, burst":    {core.PerHour(1000), core.PerHour(1000).WithBurst(2000)},
		"continuous, fraction": {core.Limit{Capacity: 1000, RefillRate: 17, RefillInterval: 7 * time.Second}, core.Limit{Capacity: 2000, RefillRate: 31, RefillInterval: 3 * time.Second}},
		"stepped":              {core.PerHour(1000).WithMode(core.Stepped), core.PerHour(2000).WithMode(core.Stepped)},
		"aligned":              {core.PerDay(1000).WithMode(core.Aligned), core.PerDay(2000).WithMode(core.Aligned)},
		"months and days":      {core.PerDay(1000), core.PerMonth(2000)},
	} {
		t.Run(name, func(t *testing.T) {
			onBothStores(t, func(t *testing.T, store core.Store, _ *limittest.Clock) {
				before := limittest.Limiter(t, store, "api", limits[0].WithName("calls"))
				after := exception(t, store, limits[0].WithName("calls"), limits[1].WithName("calls"))
				limittest.Use(t, before, "bob", 1)
				left := int64(1999)
				require.Equal(t, left, limittest.Left(t, after, "bob"), "what was added to the Capacity is there at once")
				limittest.Use(t, after, "bob", 100)
				left -= 100
				for range 20 {
					if left > 1000 {
						limittest.Use(t, before, "bob", 3)
						left -= 3
					}
					require.Equal(t, max(0, left-1000), limittest.Left(t, before, "bob"), "a process without the override goes by its Capacity")
					require.Equal(t, left, limittest.Left(t, after, "bob"), "what that cuts is there under the override")
					limittest.Use(t, after, "bob", 90)
					left -= 90
					require.Equal(t, left, limittest.Left(t, after, "bob"))
				}
				limittest.Use(t, after, "bob", left)
				require.EqualValues(t, 0, limittest.Left(t, after, "bob"))
				require.EqualValues(t, 0, limittest.Left(t, before, "bob"), "both together have no more than the override allows")
			})
		})
	}
}

// Three definitions, and requests that each of them decides several times.
func TestRaisedLimitHoldsBesideSeveralDefinitions(t *testing.T) {
	onBothStores(t, func(t *testing.T, store core.Store, clock *limittest.Clock) {
		low, middle := limittest.Limiter(t, store, "api", core.PerMonth(10)), exception(t, store, core.PerMonth(10), core.PerMonth(100))
		high := exception(t, store, core.PerMonth(10), core.PerMonth(1000))
		limittest.Use(t, high, "bob", 20) // 980
		limittest.Use(t, middle, "bob", 5)
		require.EqualValues(t, 75, limittest.Left(t, middle, "bob"))
		require.EqualValues(t, 0, limittest.Left(t, low, "bob"))
		require.NoError(t, low.Refund(t.Context(), "bob", 18)) // 7 are used
		limittest.Use(t, low, "bob", 1)
		limittest.Use(t, low, "bob", 1)
		require.EqualValues(t, 1, limittest.Left(t, low, "bob"))
		require.EqualValues(t, 1000-9, limittest.Left(t, high, "bob"))
		limittest.Use(t, middle, "bob", 3)
		require.EqualValues(t, 1000-12, limittest.Left(t, high, "bob"))
		limittest.Use(t, high, "bob", 1000-12)
		for _, l := range []*core.Limiter{low, middle, high} {
			require.EqualValues(t, 0, limittest.Left(t, l, "bob"))
		}
		clock.Move(31 * 24 * time.Hour)
		require.EqualValues(t, 1000, limittest.Left(t, high, "bob"))
	})
}

// A cut that took what was reserved left a debt.
func TestRaisedLimitHoldsWhileTokensAreReserved(t *testing.T) {
	onBothStores(t, func(t *testing.T, store core.Store, clock *limittest.Clock) {
		before, after := limittest.Limiter(t, store, "api", core.PerHour(1000)), exception(t, store, core.PerHour(1000), core.PerHour(2000))
		limittest.Use(t, after, "bob", 2000)
		r, err := after.Reserve(t.Context(), "bob", 1500)
		require.NoError(t, err)
		require.True(t, r.OK())
		require.NoError(t, after.Refund(t.Context(), "bob", 1900))
		require.EqualValues(t, 400, limittest.Left(t, after, "bob"))
		require.NoError(t, before.Debit(t.Context(), "bob", 1))
		require.EqualValues(t, 0, limittest.Left(t, before, "bob"), "1500 of 1000 are reserved")
		require.EqualValues(t, 399, limittest.Left(t, after, "bob"))
		limittest.Use(t, after, "bob", 399)
		require.EqualValues(t, 0, limittest.Left(t, after, "bob"))
		require.NoError(t, r.Cancel(t.Context()))
		require.EqualValues(t, 1500, limittest.Left(t, after, "bob"))
	})
}

// Capacities above 2^24 are stored with 24 bits. What is lost when they are
// rounded is less than one of eight million.
func TestRaisedLimitOfManyTokens(t *testing.T) {
	onBothStores(t, func(t *testing.T, store core.Store, _ *limittest.Clock) {
		const many = 999_999_999_999_999
		before := limittest.Limiter(t, store, "api", core.PerMonth(many-100_000_001))
		after := exception(t, store, core.PerMonth(many-100_000_001), core.PerMonth(many))
		limittest.Use(t, before, "bob", 1)
		exact, lost := int64(many-1), int64(0)
		for range 50 {
			limittest.Use(t, after, "bob", 1_234_567_890_123)
			limittest.Use(t, before, "bob", 1)
			exact -= 1_234_567_890_124
			left := limittest.Left(t, after, "bob")
			require.LessOrEqual(t, left, exact)
			require.LessOrEqual(t, exact-left-lost, int64(many>>22))
			lost = exact - left
		}
	})
}

// However often processes with and without an override take turns, no window
// has more than the largest Capacity and the fastest rate allow.
func TestReloadsAdmitNoMore(t *testing.T) {
	client := redistest.Client(t)
	client.AddHook(&redistest.Keeper{})
	rapid.Check(t, func(rt *rapid.T) {
		mode := rapid.SampledFrom([]core.Mode{core.Continuous, core.Stepped, core.Aligned}).Draw(rt, "mode")
		month := mode == core.Aligned && rapid.Bool().Draw(rt, "month")
		limit := func(n, burst int64) core.Limit {
			if month {
				return core.PerMonth(n).WithBurst(burst)
			}
			return core.PerHour(n).WithBurst(burst).WithMode(mode)
		}
		capacity := rapid.Int64Range(1, 40)
		rate := capacity.Draw(rt, "rate")
		var limits []core.Limit
		for range rapid.IntRange(2, 3).Draw(rt, "definitions") {
			limits = append(limits, limit(rate, capacity.Draw(rt, "capacity")))
		}
		largest := slices.MaxFunc(limits, func(a, b core.Limit) int { return cmp.Compare(a.Capacity, b.Capacity) })
		clock := limittest.NewClock()
		stores := []core.Store{
			core.NewMemoryStore(core.WithClock(clock.Now)),
			redisstore.New(client, core.WithClock(clock.Now), redisstore.WithPrefix(redistest.Prefix()), redisstore.WithDenyCache(0), longTimeout),
		}
		limiters := make([][]*core.Limiter, len(stores))
		for i, store := range stores {
			limiters[i] = append(limiters[i], limittest.Limiter(t, store, "api", limits[0]))
			for _, l := range limits[1:] {
				limiters[i] = append(limiters[i], exception(t, store, limits[0], l))
			}
		}
		type admitted struct {
			at time.Time
			n  int64
		}
		var all []admitted
		for range rapid.IntRange(1, 60).Draw(rt, "requests") {
			clock.Move(time.Duration(rapid.SampledFrom([]float64{0, 0, 0, 0.01, 0.1, 0.5, 1.1}).Draw(rt, "interval") * float64(limits[0].RefillInterval)))
			by, n := rapid.IntRange(0, len(limits)-1).Draw(rt, "limiter"), capacity.Draw(rt, "cost")
			res, err := limiters[0][by].AllowN(t.Context(), "bob", n)
			require.NoError(rt, err)
			other, err := limiters[1][by].AllowN(t.Context(), "bob", n)
			require.NoError(rt, err)
			require.Equal(rt, see(res, nil), see(other, nil))
			if !res.Allowed {
				continue
			}
			all = append(all, admitted{clock.Now(), n})
			sum := int64(0)
			for _, a := range slices.Backward(all) {
				sum += a.n
				if window := clock.Now().Sub(a.at); sum > largest.MaxIn(window) {
					rt.Fatalf("%d tokens within %v of limits %v", sum, window, limits)
				}
			}
		}
	})
}

// What was taken under a higher Capacity comes back under a lower one as far as
// there is room, also if that is more than the lower Capacity.
func TestMoreThanTheCapacityComesBack(t *testing.T) {
	onBothStores(t, func(t *testing.T, store core.Store, _ *limittest.Clock) {
		ctx := t.Context()
		after := exception(t, store, core.PerDay(10), core.PerDay(100))
		override := after.Policy()
		limittest.Use(t, after, "bob", 80)
		r, err := after.Reserve(ctx, "bob", 50)
		require.NoError(t, err)
		require.NoError(t, after.SetPolicy(core.Policy{Name: "api", Limits: []core.Limit{core.PerDay(10)}}))
		require.NoError(t, after.Debit(ctx, "bob", 1))
		require.NoError(t, r.Cancel(ctx))
		require.EqualValues(t, 0, limittest.Left(t, after, "bob"), "81 are used, and a Capacity of 10 has nothing left")
		require.NoError(t, after.SetPolicy(override))
		require.EqualValues(t, 19, limittest.Left(t, after, "bob"))
		for range 50 {
			require.NoError(t, after.Debit(ctx, "bob", 100))
		}
		require.NoError(t, after.Refund(ctx, "bob", 50*100))
		require.EqualValues(t, 19, limittest.Left(t, after, "bob"), "a debt is paid by what comes back")
	})
}
