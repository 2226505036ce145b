package redisstore_test

import (
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/tokenbucket-go/ratelimit/core"
	"github.com/tokenbucket-go/ratelimit/core/redisstore"
	"github.com/tokenbucket-go/ratelimit/internal/limittest"
	"github.com/tokenbucket-go/ratelimit/internal/redistest"
)

// What docs/language-models.md says that each call costs.
func TestRoundTripsOfUnitsAndSettlements(t *testing.T) {
	var count atomic.Int64
	client := hooked(t, "eval", func(_ redis.Cmder, send func() error) error { count.Add(1); return send() })
	store := redisstore.New(client, redisstore.WithPrefix(redistest.Prefix()), redisstore.WithTimeout(10*time.Second))
	limiter := func(policy string) *core.Limiter {
		return limittest.Limiter(t, store, policy, core.PerHour(10).WithName("calls"), core.PerHour(1000).WithName("tokens").WithUnit("tokens"))
	}
	key, organisation := limiter("key"), limiter("organisation")
	tokens := func(n int64) core.Units { return core.Units{"tokens": n} }
	limittest.Use(t, key, "first", 1)
	_, err := core.AllowTogether(t.Context(), core.Charge{Limiter: key, Key: "first"}, core.Charge{Limiter: organisation, Key: "first"})
	require.NoError(t, err) // the server has both scripts from now on
	costs := func(what string, want int64, f func() error) {
		t.Helper()
		count.Store(0)
		require.NoError(t, f())
		require.Equal(t, want, count.Load(), what)
	}
	var res core.Result
	var joint core.Result
	costs("AllowUnits", 1, func() (err error) { res, err = key.AllowUnits(t.Context(), "k", tokens(100)); return err })
	costs("Settle of a right estimate", 0, func() error { return res.Settle(t.Context(), tokens(100)) })
	costs("another", 1, func() (err error) { res, err = key.AllowUnits(t.Context(), "k", tokens(100)); return err })
	costs("Settle", 1, func() error { return res.Settle(t.Context(), tokens(10)) })
	costs("Debit", 1, func() error { return key.Debit(t.Context(), "k", 1) })
	costs("Peek", 1, func() error { _, err := key.Peek(t.Context(), "k"); return err })
	costs("AllowTogether", 1, func() (err error) {
		joint, err = core.AllowTogether(t.Context(), core.Charge{Limiter: key, Key: "k", Units: tokens(100)}, core.Charge{Limiter: organisation, Key: "o", Units: tokens(100)})
		return err
	})
	costs("Settle of all parts", 2, func() error { return joint.Settle(t.Context(), tokens(10)) })
	for range 2 {
		costs("a denial of units", 1, func() (err error) { res, err = key.AllowUnits(t.Context(), "k", tokens(1000)); return err })
		require.False(t, res.Allowed)
	}
}
