package migration_test

import (
	"bytes"
	"context"
	"math"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-redis/redis_rate/v10"
	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"
	"golang.org/x/time/rate"

	"github.com/tokenbucket-go/ratelimit/benchmarks/migration"
	"github.com/tokenbucket-go/ratelimit/core"
	"github.com/tokenbucket-go/ratelimit/internal/redistest"
)

// Waits of redis_rate and of this library for n requests of a user whose plan
// allows so many an hour. Time passes while the test runs, so they are rounded to
// 6 minutes, in which a token of 10 an hour comes back.
func TestRedisRate(t *testing.T) {
	ctx, rdb := t.Context(), redistest.Start(t).Client(t)
	users, err := migration.NewRedisRateAfter(rdb)
	require.NoError(t, err)
	for _, c := range []struct {
		user          string
		perHour, n    int
		before, after time.Duration
	}{
		{"ann", 10, 10, 0, 0},
		{"ann", 10, 2, 12 * time.Minute, 12 * time.Minute},
		{"bob", 10, 11, 6 * time.Minute, core.Never}, // no wait is long enough for a cost above the burst
		{"eve", 1000, 500, 0, 0},
		{"eve", 10, 1, 0, 6 * time.Minute}, // here 500 are used, so all of 10; redis_rate counts time
		{"eve", 1000, 400, 0, 0},           // and the larger limit has the rest
	} {
		before, err := migration.RedisRateBefore(ctx, rdb, c.user, c.perHour, c.n)
		require.NoError(t, err)
		require.Equal(t, c.before, before.Round(6*time.Minute), "before: %+v", c)
		after, err := migration.RedisRateAfter(ctx, users, c.user, c.perHour, c.n)
		require.NoError(t, err)
		if after != core.Never {
			after = after.Round(6 * time.Minute)
		}
		require.Equal(t, c.after, after, "after: %+v", c)
	}

	writes := core.Must(users.WithLimits(core.PerHour(10).WithName("writes")))
	res, err := writes.Allow(ctx, core.JoinKey("user", "eve"))
	require.NoError(t, err)
	require.True(t, res.Allowed, "a limit with a name has a bucket of its own")

	before, err := redis_rate.NewLimiter(rdb).AllowAtMost(ctx, "most", redis_rate.PerHour(10), 15)
	require.NoError(t, err)
	require.Equal(t, 10, before.Allowed)
	require.EqualValues(t, -1, before.RetryAfter)
	res, err = writes.AllowAtMost(ctx, "most", 15)
	require.NoError(t, err)
	require.EqualValues(t, 10, res.Cost)
	require.Zero(t, res.RetryAfter)
}

func TestRedisRateErrorsWithoutRedis(t *testing.T) {
	rdb := redis.NewClient(&redis.Options{Addr: redistest.Addr(t), MaxRetries: -1})
	users, err := migration.NewRedisRateAfter(rdb)
	require.NoError(t, err)
	require.NoError(t, rdb.Close())
	_, err = migration.RedisRateBefore(t.Context(), rdb, "ann", 10, 1)
	require.Error(t, err)
	_, err = migration.RedisRateAfter(t.Context(), users, "ann", 10, 1)
	require.ErrorIs(t, err, core.ErrUnavailable)
}

func TestXTimeWaits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, before := t.Context(), migration.NewXTimeBefore(10, 5)
		after, err := migration.NewXTimeAfter(10, 5)
		require.NoError(t, err)
		both := map[string]func(context.Context, int) error{
			"before": func(ctx context.Context, n int) error { return before.Wait(ctx, "host", n) },
			"after":  func(ctx context.Context, n int) error { return after.WaitN(ctx, "host", int64(n)) },
		}
		for name, wait := range both {
			start := time.Now()
			for range 4 { // 5 at once, then 15 at 10 a second
				require.NoError(t, wait(ctx, 5), name)
			}
			require.InDelta(t, 1500*time.Millisecond, time.Since(start), float64(time.Millisecond), name)

			start = time.Now()
			tooMuch := wait(ctx, 6)
			require.Error(t, tooMuch, "%s: more than the burst", name)
			soon, cancel := context.WithTimeout(ctx, 100*time.Millisecond)
			tooLate := wait(soon, 5)
			cancel()
			require.Error(t, tooLate, "%s: the deadline comes first", name)
			require.Equal(t, start, time.Now(), "%s fails at once", name)
			if name == "after" {
				require.ErrorIs(t, tooMuch, core.ErrCapacity)
				require.ErrorIs(t, tooLate, core.ErrDeadline)
			}
		}
	})
}

func TestXTimeZeroAndInf(t *testing.T) {
	x := rate.NewLimiter(0, 3)
	require.True(t, x.AllowN(time.Now(), 3), "x/time/rate with a rate of 0 admits a burst")
	require.False(t, x.Allow())
	for _, perSecond := range []float64{0, math.Inf(1)} {
		_, err := migration.NewXTimeAfter(perSecond, 3)
		require.Error(t, err, perSecond)
	}
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
			_, err := send(&got)
			require.NoError(t, err)
			require.True(t, bytes.Equal(sent, got.Bytes()))
			require.InDelta(t, 4*time.Second, time.Since(start), float64(50*time.Millisecond),
				"%s: 256 KiB at once, 256 KiB at 64 KiB a second", name)
		}
		ctx, cancel := context.WithCancel(t.Context())
		time.AfterFunc(time.Second, cancel)
		_, err := migration.JujuAfter(ctx, new(bytes.Buffer), bytes.NewReader(sent))
		require.ErrorIs(t, err, context.Canceled)
	})
}
