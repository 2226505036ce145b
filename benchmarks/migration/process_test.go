package migration_test

import (
	"bytes"
	"context"
	"math"
	"testing"
	"testing/synctest"
	"time"

	"github.com/juju/ratelimit"
	"github.com/stretchr/testify/require"
	"golang.org/x/time/rate"

	"github.com/tokenbucket-go/ratelimit/benchmarks/migration"
	"github.com/tokenbucket-go/ratelimit/core"
)

func xtime(t *testing.T, perSecond float64, burst int) (*migration.XTimeBefore, *migration.XTimeAfter) {
	t.Helper()
	limit := rate.Limit(perSecond)
	if math.IsInf(perSecond, 1) {
		limit = rate.Inf
	}
	after, err := migration.NewXTimeAfter(perSecond, int64(burst))
	require.NoError(t, err)
	return migration.NewXTimeBefore(limit, burst), after
}

func TestXTimeAllows(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		before, after := xtime(t, 10, 30)
		for _, wait := range []time.Duration{0, time.Second, 250 * time.Millisecond, time.Minute} {
			time.Sleep(wait)
			var a, b int
			for range 40 {
				if before.Allow("host", 1) {
					b++
				}
				if after.Allow("host", 1) {
					a++
				}
			}
			require.Equal(t, map[time.Duration]int{0: 30, time.Second: 10, 250 * time.Millisecond: 2, time.Minute: 30}[wait], b)
			require.Equal(t, b, a)
		}
		require.True(t, before.Allow("other", 30) && after.Allow("other", 30), "each host has a bucket of its own")
	})
}

func TestXTimeWaits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		before, after := xtime(t, 10, 5)
		ctx := t.Context()
		wait := func(f func(context.Context) error) (time.Duration, error) {
			start := time.Now()
			err := f(ctx)
			return time.Since(start).Round(time.Millisecond), err
		}
		for _, n := range []int{5, 1, 5} {
			b, err := wait(func(ctx context.Context) error { return before.Wait(ctx, "h", n) })
			require.NoError(t, err)
			a, err := wait(func(ctx context.Context) error { return after.Wait(ctx, "h", int64(n)) })
			require.NoError(t, err)
			require.LessOrEqual(t, a, b+time.Millisecond)
			time.Sleep(time.Second) // both are full again
		}

		require.Error(t, before.Wait(ctx, "h", 6), "more than the burst")
		require.ErrorIs(t, after.Wait(ctx, "h", 6), core.ErrCapacity)
		require.False(t, before.Allow("h", 6))
		require.False(t, after.Allow("h", 6))

		require.NoError(t, before.Wait(ctx, "h", 5))
		require.NoError(t, after.Wait(ctx, "h", 5))
		soon, cancel := context.WithTimeout(ctx, 100*time.Millisecond)
		defer cancel()
		start := time.Now()
		require.Error(t, before.Wait(soon, "h", 5))
		require.ErrorIs(t, after.Wait(soon, "h", 5), core.ErrDeadline)
		require.Equal(t, start, time.Now(), "both return at once")
	})
}

func TestXTimePlans(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		before, after := xtime(t, 1, 1)
		for i := range 4 {
			delay, ok := before.Plan("h", 2*time.Second)
			require.Equal(t, i < 3, ok)
			mine, allowed, err := after.Plan(t.Context(), "h", 2*time.Second)
			require.NoError(t, err)
			require.Equal(t, ok, allowed)
			require.Equal(t, delay, mine)
			require.Equal(t, time.Duration(i)*time.Second, mine)
		}
		// The fourth was canceled, so the next is due when it would have been.
		delay, ok := before.Plan("h", time.Hour)
		mine, allowed, err := after.Plan(t.Context(), "h", time.Hour)
		require.NoError(t, err)
		require.True(t, ok && allowed)
		require.Equal(t, 3*time.Second, delay)
		require.Equal(t, delay, mine)
	})
}

func TestXTimeZeroAndInf(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		before, after := xtime(t, 0, 3)
		require.True(t, before.Allow("h", 3), "x/time/rate allows the burst")
		require.False(t, before.Allow("h", 1))
		require.False(t, after.Allow("h", 1))
		require.ErrorIs(t, after.Wait(t.Context(), "h", 1), migration.ErrClosed)

		before, after = xtime(t, math.Inf(1), 0)
		require.True(t, before.Allow("h", 1000))
		require.True(t, after.Allow("h", 1000))
		require.NoError(t, after.Wait(t.Context(), "h", 1000))

		_, err := core.NewLimiter(core.NewMemoryStore(), core.Policy{Name: "p", Limits: []core.Limit{core.PerSecond(0.0)}})
		require.Error(t, err)
		_, err = core.NewLimiter(core.NewMemoryStore(), core.Policy{Name: "p", Limits: []core.Limit{core.PerSecond(math.Inf(1))}})
		require.Error(t, err)
	})
}

func TestXTimeSetRate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		before, after := xtime(t, 1, 10)
		require.True(t, before.Allow("low", 8) && after.Allow("low", 8))
		require.True(t, before.Allow("full", 1) && after.Allow("full", 1))
		time.Sleep(time.Second)

		before.SetRate(1, 20)
		require.NoError(t, after.SetRate(1, 20))
		require.False(t, before.Allow("low", 4), "x/time/rate keeps the level")
		require.True(t, before.Allow("low", 3))
		require.True(t, after.Allow("low", 13), "here 7 of 20 are used")
		require.False(t, after.Allow("low", 1))
		require.False(t, before.Allow("full", 20), "x/time/rate keeps a full bucket's level too")
		require.True(t, after.Allow("full", 20), "here a full bucket is full at once")

		before.SetRate(1, 2)
		require.NoError(t, after.SetRate(1, 2))
		require.True(t, before.Allow("new", 2) && after.Allow("new", 2))
		require.False(t, before.Allow("new", 1) || after.Allow("new", 1))
	})
}

func TestXTimeManyReservations(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		before, after := xtime(t, 1, 1)
		for range 2048 {
			_, ok, err := after.Plan(t.Context(), "h", core.Never)
			require.NoError(t, err)
			require.True(t, ok)
		}
		_, ok, err := after.Plan(t.Context(), "h", core.Never)
		require.NoError(t, err)
		require.False(t, ok, "a key has at most 2,048 reservations")
		require.ErrorIs(t, after.Wait(t.Context(), "h", 1), core.ErrPromised)
		for range 5000 {
			_, ok := before.Plan("h", core.Never)
			require.True(t, ok)
		}
	})
}

func TestJuju(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		sent := bytes.Repeat([]byte("x"), 512<<10)
		for name, send := range map[string]func(*bytes.Buffer) (int64, error){
			"before": func(dst *bytes.Buffer) (int64, error) { return migration.JujuBefore(dst, bytes.NewReader(sent)) },
			"after": func(dst *bytes.Buffer) (int64, error) {
				return migration.JujuAfter(t.Context(), dst, bytes.NewReader(sent))
			},
		} {
			var got bytes.Buffer
			start := time.Now()
			n, err := send(&got)
			require.NoError(t, err)
			require.EqualValues(t, len(sent), n)
			require.True(t, bytes.Equal(sent, got.Bytes()))
			require.InDelta(t, 4*time.Second, time.Since(start), float64(50*time.Millisecond), "%s: 256 KiB at once, 256 KiB at 64 KiB a second", name)
		}
	})
}

func TestJujuAfterStopsWithItsContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		time.AfterFunc(time.Second, cancel)
		_, err := migration.JujuAfter(ctx, new(bytes.Buffer), bytes.NewReader(make([]byte, 1<<20)))
		require.ErrorIs(t, err, context.Canceled)
	})
}

// What the page's table of names says.
func TestJujuNames(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx := t.Context()
		bucket := ratelimit.NewBucketWithQuantum(time.Second, 10, 5)
		limiter := core.Must(core.NewLimiter(core.NewMemoryStore(), core.Policy{
			Name: "p", Limits: []core.Limit{core.Per(5, time.Second).WithBurst(10).WithMode(core.Stepped)},
		}))
		available := func() int64 {
			res, err := limiter.Peek(ctx, "k")
			require.NoError(t, err)
			return res.Remaining
		}
		atMost := func(n int64) int64 {
			res, err := limiter.AllowAtMost(ctx, "k", n)
			require.NoError(t, err)
			return res.Cost
		}
		require.EqualValues(t, 10, bucket.TakeAvailable(12))
		require.EqualValues(t, 10, atMost(12))
		time.Sleep(999 * time.Millisecond)
		require.Zero(t, bucket.Available())
		require.Zero(t, available(), "tokens come all at once")
		time.Sleep(time.Millisecond)
		require.EqualValues(t, 5, bucket.Available())
		require.EqualValues(t, 5, available())

		require.Equal(t, time.Second, bucket.Take(10), "more than is there: the caller waits")
		r, err := limiter.Reserve(ctx, "k", 10)
		require.NoError(t, err)
		require.Equal(t, time.Second, r.Delay())

		require.NotZero(t, bucket.Take(11), "more than the capacity: the caller waits longer")
		r, err = limiter.Reserve(ctx, "k", 11)
		require.NoError(t, err)
		require.False(t, r.OK(), "more than the capacity is never promised")
	})
}
