package migration_test

import (
	"context"
	"errors"
	"net/http"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-chi/httprate"
	"github.com/juju/ratelimit"
	"github.com/labstack/echo/v4"
	"github.com/labstack/echo/v4/middleware"
	"github.com/stretchr/testify/require"
	"github.com/throttled/throttled/v2"
	"github.com/throttled/throttled/v2/store/memstore"
	"github.com/ulule/limiter/v3"
	"github.com/ulule/limiter/v3/drivers/store/memory"
	"golang.org/x/time/rate"

	"github.com/tokenbucket-go/ratelimit/chilimit"
	"github.com/tokenbucket-go/ratelimit/core"
	"github.com/tokenbucket-go/ratelimit/echolimit"
)

// What the page's tables say of names that look alike and mean different things.

func inMemory(t *testing.T, limit core.Limit) *core.Limiter {
	t.Helper()
	l, err := core.NewLimiter(core.NewMemoryStore(), core.Policy{Name: "api", Limits: []core.Limit{limit}})
	require.NoError(t, err)
	return l
}

func TestPeeksOfAnEmptyBucket(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx := t.Context()
		window := limiter.New(memory.NewStoreWithOptions(limiter.StoreOptions{}), limiter.Rate{Period: time.Minute, Limit: 2})
		store, err := memstore.NewCtx(10)
		require.NoError(t, err)
		gcra, err := throttled.NewGCRARateLimiterCtx(store, throttled.RateQuota{MaxRate: throttled.PerMin(2), MaxBurst: 1})
		require.NoError(t, err)
		here := inMemory(t, core.PerMinute(2))
		for range 2 {
			_, err := window.Get(ctx, "k")
			require.NoError(t, err)
			_, _, err = gcra.RateLimitCtx(ctx, "k", 1)
			require.NoError(t, err)
			_, err = here.Allow(ctx, "k")
			require.NoError(t, err)
		}
		state, err := window.Peek(ctx, "k")
		require.NoError(t, err)
		require.False(t, state.Reached, "ulule: nothing was denied yet")
		_, err = window.Get(ctx, "k")
		require.NoError(t, err)
		state, err = window.Peek(ctx, "k")
		require.NoError(t, err)
		require.True(t, state.Reached, "ulule: a request was denied")

		limited, result, err := gcra.RateLimitCtx(ctx, "k", 0)
		require.NoError(t, err)
		require.False(t, limited, "throttled: a quantity of 0 is never limited")
		require.Positive(t, result.RetryAfter, "throttled: 1 would be")

		res, err := here.Peek(ctx, "k")
		require.NoError(t, err)
		require.True(t, res.Allowed, "a cost of 0 is allowed")
		require.Less(t, res.Remaining, int64(1))
	})
}

// After SetLimit the old rate counts up to the change, after SetPolicy up to the first request under the new one.
func TestRatesOfThePast(t *testing.T) {
	for _, c := range []struct{ was, now, tokens float64 }{{1, 100, 10}, {50, 1, 500}} {
		synctest.Test(t, func(t *testing.T) {
			ctx := t.Context()
			x := rate.NewLimiter(rate.Limit(c.was), 1000)
			here := inMemory(t, core.PerSecond(c.was).WithBurst(1000))
			require.True(t, x.AllowN(time.Now(), 1000))
			_, err := here.AllowN(ctx, "k", 1000)
			require.NoError(t, err)
			time.Sleep(10 * time.Second)
			x.SetLimit(rate.Limit(c.now))
			require.NoError(t, here.SetPolicy(core.Policy{Name: "api", Limits: []core.Limit{core.PerSecond(c.now).WithBurst(1000)}}))
			require.InDelta(t, c.tokens, x.Tokens(), 0.001)
			left := func() int64 {
				res, err := here.Peek(ctx, "k")
				require.NoError(t, err)
				return res.Remaining
			}
			require.Equal(t, int64(c.tokens), left())
			time.Sleep(time.Second)
			require.InDelta(t, c.tokens+c.now, x.Tokens(), 0.001)
			require.Equal(t, int64(c.tokens+c.now), left())

			require.NoError(t, here.SetPolicy(core.Policy{Name: "api", Limits: []core.Limit{core.PerSecond(c.was).WithBurst(1000)}}))
			x.SetLimit(rate.Limit(c.was))
			time.Sleep(time.Second) // without a request: at the rate of before
			require.InDelta(t, c.tokens+c.now+c.was, x.Tokens(), 0.001)
			require.Equal(t, int64(c.tokens+2*c.now), left())
		})
	}
}

// A reservation that is canceled in front of a later one: x/time gives back what the later one has not taken, and may promise
// those tokens for an earlier time.
func TestCancelInFrontOfALaterReservation(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx := t.Context()
		reserve := func(x *rate.Limiter, here *core.Limiter, n int) (*rate.Reservation, *core.Reservation) {
			r, err := here.Reserve(ctx, "k", int64(n))
			require.NoError(t, err)
			return x.ReserveN(time.Now(), n), r
		}
		canceled := func() (*rate.Limiter, *core.Limiter) {
			x, here := rate.NewLimiter(1, 10), inMemory(t, core.PerSecond(1).WithBurst(10))
			reserve(x, here, 10)
			b, a := reserve(x, here, 5)
			later, mine := reserve(x, here, 1)
			require.Equal(t, 6*time.Second, later.Delay())
			require.Equal(t, 6*time.Second, mine.Delay())
			b.Cancel()
			require.NoError(t, a.Cancel(ctx))
			return x, here
		}
		x, here := canceled()
		require.InDelta(t, -2, x.Tokens(), 0.001, "4 of 5 are given back")
		b, a := reserve(x, here, 1)
		require.Equal(t, 3*time.Second, b.Delay(), "before the reservation that is due after 6 s")
		require.Equal(t, 6*time.Second, a.Delay(), "not before an earlier reservation")

		x, here = canceled()
		time.Sleep(2 * time.Second)
		res, err := here.Allow(ctx, "k")
		require.NoError(t, err)
		require.True(t, res.Allowed, "all 5 are given back: 2 of 2 tokens since, 1 is promised")
		require.False(t, x.Allow())
	})
}

// Requests with a limit of their own and requests without count together, in both.
func TestRequestLimitsCountTogether(t *testing.T) {
	type limitKey struct{}
	synctest.Test(t, func(t *testing.T) {
		before := httprate.LimitBy(2, time.Minute, httprate.Key("*"))(ok)
		after := chilimit.New(inMemory(t, core.PerMinute(2)), chilimit.Global("all"),
			chilimit.WithLimits(func(r *http.Request) ([]core.Limit, error) {
				if n, _ := r.Context().Value(limitKey{}).(int); n > 0 {
					return []core.Limit{core.Per(float64(n), time.Minute)}, nil
				}
				return nil, nil
			}))(ok)
		for i, c := range []struct{ limit, status int }{{0, 200}, {0, 200}, {0, 429}, {4, 200}, {4, 200}, {4, 429}, {0, 429}} {
			for name, h := range map[string]http.Handler{"before": before, "after": after} {
				ask := func() *http.Request {
					ctx := context.WithValue(httprate.WithRequestLimit(t.Context(), c.limit), limitKey{}, c.limit)
					return request("GET", "/", "192.0.2.1")().WithContext(ctx)
				}
				require.Equal(t, c.status, serve(h, 1, ask).last.Code, "%s, request %d", name, i)
			}
		}
	})
}

func TestJujuIntervalsBelowAMicrosecond(t *testing.T) {
	const d = 500 // ns
	require.InDelta(t, 2_000_000, ratelimit.NewBucket(d*time.Nanosecond, 100).Rate(), 0.001)
	require.NotPanics(t, func() { inMemory(t, core.PerSecond(1e9/d).WithBurst(100)) })
	_, err := core.NewLimiter(core.NewMemoryStore(), core.Policy{
		Name: "api", Limits: []core.Limit{core.Per(1, d*time.Nanosecond).WithBurst(100)},
	})
	require.ErrorContains(t, err, "must be at least 1µs")
}

func TestEchoErrorsOfTheKey(t *testing.T) {
	for _, c := range []struct {
		err           error
		before, after int
	}{
		{errors.New("no session"), 403, 500},
		{core.ErrNoKey, 403, 400},
		{echo.NewHTTPError(http.StatusUnauthorized), 401, 401},
	} {
		key := func(echo.Context) (string, error) { return "", c.err }
		own := middleware.RateLimiterWithConfig(middleware.RateLimiterConfig{
			Store: middleware.NewRateLimiterMemoryStore(10), IdentifierExtractor: key,
		})
		answered := func(m echo.MiddlewareFunc) int {
			e := echo.New()
			e.Use(m)
			e.GET("/", func(c echo.Context) error { return c.NoContent(http.StatusOK) })
			return serve(e, 1, request("GET", "/", "192.0.2.1")).last.Code
		}
		require.Equal(t, c.before, answered(own), "before: %v", c.err)
		require.Equal(t, c.after, answered(echolimit.New(inMemory(t, core.PerSecond(10)), key)), "after: %v", c.err)
	}
}
