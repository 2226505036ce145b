package redisstore_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/tokenbucket-go/ratelimit/core"
	"github.com/tokenbucket-go/ratelimit/core/redisstore"
	"github.com/tokenbucket-go/ratelimit/internal/limittest"
	"github.com/tokenbucket-go/ratelimit/internal/redistest"
)

// onBoth runs a test on both stores, each with its own clock.
func onBoth(t *testing.T, test func(*testing.T, core.Store, *limittest.Clock)) {
	t.Helper()
	t.Run("MemoryStore", func(t *testing.T) {
		clock := limittest.NewClock()
		test(t, core.NewMemoryStore(core.WithClock(clock.Now)), clock)
	})
	t.Run("RedisStore", func(t *testing.T) {
		clock, client := limittest.NewClock(), redistest.Client(t)
		client.AddHook(&redistest.Keeper{})
		test(t, redisstore.New(client, core.WithClock(clock.Now), redisstore.WithPrefix(redistest.Prefix()), longTimeout, redisstore.WithDenyCache(0)), clock)
	})
}

// admitted returns how many of n requests are allowed.
func admitted(t *testing.T, l *core.Limiter, n int) (passed int) {
	t.Helper()
	for range n {
		res, err := l.Allow(t.Context(), "k")
		require.NoError(t, err)
		if res.Allowed {
			passed++
		}
	}
	return passed
}

// What comes back after a change refills nothing at the rate of before.
func TestTokensReturnedAfterSetPolicyRefillAtTheNewRate(t *testing.T) {
	fast := core.Policy{Name: "api", Limits: []core.Limit{{Name: "x", Capacity: 100, RefillRate: 100, RefillInterval: time.Second}}}
	slow := core.Policy{Name: "api", Limits: []core.Limit{{Name: "x", Capacity: 100, RefillRate: 1, RefillInterval: time.Hour}}}
	onBoth(t, func(t *testing.T, s core.Store, clock *limittest.Clock) {
		l := core.Must(core.NewLimiter(s, fast))
		taken, err := l.Allow(t.Context(), "k")
		require.NoError(t, err)
		require.NoError(t, l.SetPolicy(slow))
		require.Equal(t, 99, admitted(t, l, 200))
		clock.Move(10 * time.Second)
		require.NoError(t, taken.Undo(t.Context()))
		assert.Equal(t, 1, admitted(t, l, 200), "only the returned token, and no refill at the old rate")

		r, err := l.Reserve(t.Context(), "other", 5)
		require.NoError(t, err)
		raised := slow
		raised.Limits = []core.Limit{slow.Limits[0].WithBurst(1000)}
		raised.Limits[0].RefillRate, raised.Limits[0].RefillInterval = 1000, time.Second
		require.NoError(t, l.SetPolicy(raised))
		clock.Move(time.Second)
		require.NoError(t, r.Cancel(t.Context())) // it was due
		assert.EqualValues(t, 995, limittest.Left(t, l, "other"), "the old rate counts until the first request under the new one")
		clock.Move(4 * time.Millisecond)
		assert.EqualValues(t, 999, limittest.Left(t, l, "other"), "and then the new one")
	})
}

func TestUndoReturnsNothingToRemovedLimits(t *testing.T) {
	onBoth(t, func(t *testing.T, s core.Store, _ *limittest.Clock) {
		l := core.Must(core.NewLimiter(s, core.Policy{Name: "api", Limits: []core.Limit{core.PerHour(5).WithName("a"), core.PerHour(5).WithName("b")}}))
		taken, err := l.AllowN(t.Context(), "k", 2)
		require.NoError(t, err)
		require.NoError(t, l.SetPolicy(core.Policy{Name: "api", Limits: []core.Limit{core.PerHour(5).WithName("c"), core.PerHour(5).WithName("d")}}))
		require.Equal(t, 5, admitted(t, l, 10))
		require.NoError(t, taken.Undo(t.Context()))
		assert.Zero(t, admitted(t, l, 10))
	})
}

// A key lives until the limits that decided last have filled it, also with what
// they had to cut.
func TestAKeyLivesUntilWhatIsCutHasRefilled(t *testing.T) {
	quota, tenth := core.PerDay(1000).WithName("x"), core.PerDay(100).WithName("x")
	client, prefix := redistest.Client(t), redistest.Prefix()
	l := limittest.Limiter(t, redisstore.New(client, redisstore.WithPrefix(prefix), longTimeout), "api", quota)
	tier, err := l.WithLimits(tenth)
	require.NoError(t, err)
	limittest.Use(t, l, "k", 500)
	ttl, _ := expiry(t, client, prefix+"api:k")
	assert.InDelta(t, 12, ttl.Hours(), 2, "500 of 1,000 a day")
	require.NoError(t, tier.Debit(t.Context(), "k", 1))
	ttl, _ = expiry(t, client, prefix+"api:k")
	assert.InDelta(t, 5*24, ttl.Hours(), 17, "501 at 100 a day")
}

// A bucket never holds more than its Capacity, even if reservations wait: it
// loses what a step adds beyond it.
func TestReservationsDueTogetherGetAtMostTheCapacity(t *testing.T) {
	limit := core.Limit{Capacity: 5, RefillRate: 10, RefillInterval: time.Minute, Mode: core.Stepped}
	onBoth(t, func(t *testing.T, s core.Store, _ *limittest.Clock) {
		l := core.Must(core.NewLimiter(s, core.Policy{Name: "api", Limits: []core.Limit{limit}}))
		var delays []time.Duration
		for range 5 {
			r, err := l.Reserve(t.Context(), "k", 5)
			require.NoError(t, err)
			delays = append(delays, r.Delay())
		}
		assert.Equal(t, []time.Duration{0, time.Minute, 2 * time.Minute, 3 * time.Minute, 4 * time.Minute}, delays,
			"two of 5 tokens at one instant are more than MaxIn(0)")
	})
}

// LocalShare is mostly 1/n, which a float64 rounds.
func TestSharesAddUpToTheLimit(t *testing.T) {
	for n := 1; n <= 500; n++ {
		l, err := core.NewLimiter(&limittest.AwayStore{Err: errors.New("away")}, core.Policy{
			Name: "api", Limits: []core.Limit{core.PerHour(3 * n)}, LocalShare: 1 / float64(n)})
		require.NoError(t, err)
		require.Equal(t, 3, admitted(t, l, 5), "each of %d processes must grant its share of %d", n, 3*n)
	}
}

func TestPeekSettlesALease(t *testing.T) {
	b := newLeaseBench(t, core.PerHour(1000))
	l := b.process(redisstore.WithLease(100))
	b.take(l, 40)
	parked := 960 - b.remaining()
	require.Positive(t, parked, "premise: a lease")
	_, err := b.plain.Reserve(t.Context(), "k", b.remaining()+5)
	require.NoError(t, err)
	res, err := l.Peek(t.Context(), "k")
	require.NoError(t, err)
	assert.Equal(t, parked-5, res.Remaining, "a peek must include the process's own lease")
	assert.True(t, res.Allowed, "a request for all of it is allowed")
	next, err := l.Allow(t.Context(), "k")
	require.NoError(t, err)
	assert.True(t, next.Allowed)
}

func TestRequestCanceledDuringALeaseTakesNothing(t *testing.T) {
	b := newLeaseBench(t, noRefill(1000))
	gate := &gateHook{}
	b.client.AddHook(gate)
	l := b.process(redisstore.WithLease(100))
	b.take(l, 1)
	sent := gate.afterServer()
	ctx, leave := context.WithCancel(t.Context())
	done := make(chan error)
	go func() { _, err := l.AllowN(ctx, "k", 50); done <- err }()
	<-sent.reached
	require.Less(t, b.remaining(), int64(950), "premise: its tokens are taken")
	leave()
	require.ErrorIs(t, <-done, context.Canceled)
	close(sent.release)
	assert.Eventually(t, func() bool {
		b.giveBack()
		res, err := b.plain.Peek(context.Background(), "k")
		return err == nil && res.Remaining == 999
	}, 20*time.Second, time.Millisecond)
}

func TestWrappedStoreReportsItsMistakes(t *testing.T) {
	for name, s := range map[string]core.Store{
		"no client":    redisstore.New(nil),
		"a bad option": redisstore.New(redistest.Client(t), redisstore.WithTimeout(-1)),
	} {
		l, err := core.NewLimiter(struct{ core.Store }{s}, core.Policy{Name: "api", Limits: []core.Limit{core.PerDay(1)}, OnFailure: core.FailClosed})
		require.NoError(t, err, "premise: the limiter can't see them")
		_, err = l.Allow(t.Context(), "k")
		var mistake *core.ConfigError
		require.ErrorAs(t, err, &mistake, name)
		require.ErrorAs(t, l.Reset(t.Context(), "k"), &mistake, name)
	}
}
