package migration_test

import (
	"bytes"
	"context"
	"math"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-redis/redis_rate/v10"
	"github.com/juju/ratelimit"
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

// x/time counts the old rate up to SetLimit, this library the new one from the
// key's last request on.
func TestXTimeNewRates(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		x := rate.NewLimiter(1, 1000)
		here, err := migration.NewXTimeAfter(1, 1000)
		require.NoError(t, err)
		left := func() int64 {
			res, err := here.Peek(t.Context(), "host")
			require.NoError(t, err)
			return res.Remaining
		}
		require.True(t, x.AllowN(time.Now(), 1000))
		_, err = here.AllowN(t.Context(), "host", 1000)
		require.NoError(t, err)
		time.Sleep(time.Second)
		require.InDelta(t, 1, x.Tokens(), 0.001)
		require.EqualValues(t, 1, left())
		faster := here.Policy()
		faster.Limits = []core.Limit{core.PerSecond(100).WithBurst(1000)}
		require.NoError(t, here.SetPolicy(faster))
		x.SetLimit(100)
		require.InDelta(t, 1, x.Tokens(), 0.001)
		require.EqualValues(t, 100, left(), "the second before the change is at the new rate")
		time.Sleep(time.Second)
		require.InDelta(t, 101, x.Tokens(), 0.001)
		require.EqualValues(t, 200, left())
	})
}

// A reservation is canceled in front of a later one: both give back what the
// later one has not taken, and may promise those tokens for an earlier time.
func TestXTimeCancel(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		x := rate.NewLimiter(1, 10)
		here, err := migration.NewXTimeAfter(1, 10)
		require.NoError(t, err)
		reserve := func(n int, delay time.Duration) (*rate.Reservation, *core.Result) {
			b := x.ReserveN(time.Now(), n)
			a, err := here.Reserve(t.Context(), "host", int64(n))
			require.NoError(t, err)
			require.Equal(t, delay, b.Delay(), "before: %d", n)
			require.Equal(t, delay, a.Delay(), "after: %d", n)
			return b, &a
		}
		reserve(10, 0)
		b, a := reserve(5, 5*time.Second)
		reserve(1, 6*time.Second)
		b.Cancel()
		require.NoError(t, a.Undo(t.Context()))
		reserve(1, 3*time.Second)
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

func TestJujuNames(t *testing.T) {
	require.InDelta(t, 2_000_000, ratelimit.NewBucket(500*time.Nanosecond, 100).Rate(), 0.001)
	validate := func(l core.Limit) error { return core.Policy{Name: "p", Limits: []core.Limit{l}}.Validate() }
	require.NoError(t, validate(core.PerSecond(1e9/500).WithBurst(100)))
	require.ErrorContains(t, validate(core.Per(1, 500*time.Nanosecond).WithBurst(100)), "must be at least 1µs")

	synctest.Test(t, func(t *testing.T) {
		ctx, bucket := t.Context(), ratelimit.NewBucketWithQuantum(time.Second, 10, 5)
		limiter := core.Must(core.NewLimiter(core.NewMemoryStore(), core.Policy{
			Name: "p", Limits: []core.Limit{core.Per(5, time.Second).WithBurst(10).WithMode(core.Stepped)},
		}))
		for _, c := range []struct {
			after time.Duration
			taken int64 // of 12
		}{{0, 10}, {999 * time.Millisecond, 0}, {time.Millisecond, 5}} {
			time.Sleep(c.after)
			require.Equal(t, c.taken, bucket.TakeAvailable(12))
			res, err := limiter.AllowAtMost(ctx, "k", 12)
			require.NoError(t, err)
			require.Equal(t, c.taken, res.Cost)
		}
		require.Equal(t, 2*time.Second, bucket.Take(10), "more than is there: the caller waits")
		r, err := limiter.Reserve(ctx, "k", 10)
		require.NoError(t, err)
		require.Equal(t, 2*time.Second, r.Delay())
		require.NotZero(t, bucket.Take(11), "more than the capacity: the caller waits longer")
		r, err = limiter.Reserve(ctx, "k", 11)
		require.NoError(t, err)
		require.False(t, r.Allowed, "more than the capacity is never promised")
	})
}
