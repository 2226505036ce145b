package redisstore_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/tokenbucket-go/ratelimit/core"
	"github.com/tokenbucket-go/ratelimit/core/redisstore"
	"github.com/tokenbucket-go/ratelimit/internal/limittest"
	"github.com/tokenbucket-go/ratelimit/internal/redistest"
)

// onBothStores runs a test on a MemoryStore and on Redis, by a clock that
// stands still.
func onBothStores(t *testing.T, test func(t *testing.T, store core.Store)) {
	clock := limittest.NewClock()
	t.Run("memory", func(t *testing.T) { test(t, core.NewMemoryStore(core.WithClock(clock.Now))) })
	t.Run("redis", func(t *testing.T) {
		client := redistest.Client(t)
		client.AddHook(&redistest.Keeper{})
		test(t, redisstore.New(client, core.WithClock(clock.Now), redisstore.WithPrefix(redistest.Prefix()), redisstore.WithTimeout(10*time.Second)))
	})
}

// callsAndTokens is 3 requests and 1,000 tokens an hour.
func callsAndTokens(t *testing.T, store core.Store) *core.Limiter {
	return limittest.Limiter(t, store, "llm", core.PerHour(3).WithName("calls"), core.PerHour(1000).WithName("tokens").WithUnit("tokens"))
}

// leftOfEach is what each limit of key has left.
func leftOfEach(t *testing.T, l *core.Limiter, key string) (left []int64) {
	t.Helper()
	res, err := l.Peek(t.Context(), key)
	require.NoError(t, err)
	for _, limit := range res.Limits() {
		left = append(left, limit.Remaining)
	}
	return left
}

func TestUnitsAreTakenFromAllLimitsOrNone(t *testing.T) {
	onBothStores(t, func(t *testing.T, store core.Store) {
		l := callsAndTokens(t, store)
		res, err := l.AllowUnits(t.Context(), "k", core.Units{"tokens": 600})
		require.NoError(t, err)
		require.True(t, res.Allowed)
		require.Equal(t, []int64{2, 400}, leftOfEach(t, l, "k"), "a request and its tokens")
		res, err = l.AllowUnits(t.Context(), "k", core.Units{"tokens": 600})
		require.NoError(t, err)
		require.False(t, res.Allowed)
		require.Equal(t, []string{"tokens"}, core.Problem(res).ViolatedPolicies)
		require.Equal(t, []int64{2, 400}, leftOfEach(t, l, "k"), "a denied request takes nothing")
		res, err = l.AllowUnits(t.Context(), "k", core.Units{core.Requests: 0, "tokens": 400})
		require.NoError(t, err)
		require.True(t, res.Allowed)
		require.Equal(t, []int64{2, 0}, leftOfEach(t, l, "k"), "tokens without a request")
		_, err = l.AllowUnits(t.Context(), "k", core.Units{"token": 1})
		require.ErrorIs(t, err, core.ErrUnit, "a unit that no limit counts")
	})
}

func TestSettleCorrectsAnEstimate(t *testing.T) {
	onBothStores(t, func(t *testing.T, store core.Store) {
		l := callsAndTokens(t, store)
		res, err := l.AllowUnits(t.Context(), "k", core.Units{"tokens": 600})
		require.NoError(t, err)
		require.NoError(t, res.Settle(t.Context(), core.Units{"tokens": 100}))
		require.Equal(t, []int64{2, 900}, leftOfEach(t, l, "k"), "what was too much comes back")
		res, err = l.AllowUnits(t.Context(), "k", core.Units{"tokens": 100})
		require.NoError(t, err)
		require.NoError(t, res.Settle(t.Context(), core.Units{"tokens": 300}))
		require.Equal(t, []int64{1, 600}, leftOfEach(t, l, "k"), "what was missing is charged")
		res, err = l.AllowUnits(t.Context(), "k", core.Units{"tokens": 500})
		require.NoError(t, err)
		require.NoError(t, res.Settle(t.Context(), core.Units{core.Requests: 0, "tokens": 0}))
		require.Equal(t, []int64{1, 600}, leftOfEach(t, l, "k"), "a request that was free")
		denied, err := l.AllowUnits(t.Context(), "k", core.Units{"tokens": 700})
		require.NoError(t, err)
		require.NoError(t, denied.Settle(t.Context(), core.Units{"tokens": 0}))
		require.Equal(t, []int64{1, 600}, leftOfEach(t, l, "k"), "a denied request has nothing to settle")
	})
}

func TestAsMuchAsIsThere(t *testing.T) {
	onBothStores(t, func(t *testing.T, store core.Store) {
		l := limittest.Limiter(t, store, "batch", core.PerHour(10))
		for _, want := range []int64{7, 3, 0} {
			res, err := l.AllowAtMost(t.Context(), "k", 7)
			require.NoError(t, err)
			require.Equal(t, want, res.Cost)
			require.Equal(t, want > 0, res.Allowed)
		}
	})
}

func TestOverridesHoldForTheirKeys(t *testing.T) {
	onBothStores(t, func(t *testing.T, store core.Store) {
		policy := core.Policy{Name: "api", Limits: []core.Limit{core.PerHour(2).WithName("calls")}}
		l, err := core.NewLimiter(store, policy)
		require.NoError(t, err)
		limittest.Use(t, l, "ann", 2)
		limittest.Use(t, l, "bob", 2)
		policy.Overrides = map[string][]core.Limit{"bob": {core.PerHour(5).WithName("calls")}}
		require.NoError(t, l.SetPolicy(policy))
		require.EqualValues(t, 0, limittest.Left(t, l, "ann"))
		require.EqualValues(t, 3, limittest.Left(t, l, "bob"), "what was added to the Capacity is there at once")
		limittest.Use(t, l, "bob", 3)
		require.EqualValues(t, 0, limittest.Left(t, l, "bob"), "and only once")
	})
}

// What docs/language-models.md says that each call costs.
func TestRoundTripsOfUnitsAndSettlements(t *testing.T) {
	client, count := redistest.Client(t), &countingHook{}
	client.AddHook(count)
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
		count.scripts.Store(0)
		require.NoError(t, f())
		require.Equal(t, want, count.scripts.Load(), what)
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
