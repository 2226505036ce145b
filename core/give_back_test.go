package core_test

import (
	"context"
	"errors"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/tokenbucket-go/ratelimit/core"
	"github.com/tokenbucket-go/ratelimit/internal/limittest"
)

// A Result that is given back to another bucket than it came from would admit more there than the policy says.
func TestResultOfAnotherKeyOrPolicyIsRefused(t *testing.T) {
	ctx := t.Context()
	away := &limittest.AwayStore{Err: errors.New("away")}
	for name, stores := range map[string][2]core.Store{
		"memory":       {core.NewMemoryStore(), core.NewMemoryStore()},
		"the fallback": {away, away},
	} {
		var unsettled int
		observer := core.WithObserver(func(_ context.Context, o core.Observation) {
			if o.Outcome == core.OutcomeUnsettled && errors.Is(o.Err, core.ErrOtherKey) {
				unsettled++
			}
		})
		limits := []core.Limit{core.PerDay(10), core.PerDay(100).WithName("tokens").WithUnit("tokens")}
		api := core.Must(core.NewLimiter(stores[0], core.Policy{Name: "api", Limits: limits}, observer))
		other := core.Must(core.NewLimiter(stores[1], core.Policy{Name: "other", Limits: limits}, observer))
		tier, err := api.WithLimits(core.PerDay(20).WithName("api-24h"))
		require.NoError(t, err)
		long := string(make([]byte, 1000))
		for _, key := range []string{"ann", long} {
			for _, l := range []*core.Limiter{api, other} {
				_, err := l.AllowN(ctx, "bob", 3)
				require.NoError(t, err)
			}
			res, err := api.AllowUnits(ctx, key, core.Units{core.Requests: 4, "tokens": 30})
			require.NoError(t, err)
			kept := res.Keep()
			for _, result := range []core.Result{res, kept.Result()} {
				for _, wrong := range []struct {
					l   *core.Limiter
					key string
				}{{api, "bob"}, {api, key + "x"}, {other, key}, {other, "bob"}} {
					before := limittest.Left(t, wrong.l, wrong.key)
					unsettled = 0
					require.ErrorIs(t, wrong.l.Undo(ctx, wrong.key, result), core.ErrOtherKey, name)
					require.ErrorIs(t, wrong.l.Settle(ctx, wrong.key, result, core.Units{"tokens": 3}), core.ErrOtherKey, name)
					assert.Equal(t, 1, unsettled, "%s: observers learn that the decision is not settled", name)
					assert.Equal(t, before, limittest.Left(t, wrong.l, wrong.key), "%s: a result of another bucket changes nothing", name)
				}
			}
			require.NoError(t, tier.Settle(ctx, key, kept.Result(), core.Units{core.Requests: 3}), "a tier shares its policy's buckets")
			assert.EqualValues(t, 7, limittest.Left(t, api, key))
		}
	}
}

func TestJointResultIsUndoneOrSettledOnce(t *testing.T) {
	ctx := t.Context()
	l := limittest.Limiter(t, core.NewMemoryStore(core.WithClock(limittest.NewClock().Now)), "api", core.PerHour(10))
	charges := []core.Charge{{Limiter: l, Key: "ann", Cost: 3}, {Limiter: l, Key: "acme", Cost: 3}}
	left := func(want int64, after string) {
		t.Helper()
		assert.Equal(t, []int64{want, want}, []int64{limittest.Left(t, l, "ann"), limittest.Left(t, l, "acme")}, after)
	}
	take := func() core.JointResult { return core.Must(core.AllowTogether(ctx, charges...)) }
	ends := map[string]func(context.Context, core.JointResult) error{
		"Undo": func(ctx context.Context, j core.JointResult) error { return j.Undo(ctx) },
		"Settle": func(ctx context.Context, j core.JointResult) error {
			return j.Settle(ctx, core.Units{core.Requests: 0})
		},
	}
	for first, end := range ends {
		for second, again := range ends {
			j := take()
			left(7, "charged")
			gone, cancel := context.WithCancel(ctx)
			cancel()
			require.ErrorIs(t, end(gone, j), context.Canceled)
			require.ErrorIs(t, j.Settle(ctx, core.Units{"tokens": 1}), core.ErrUnit)
			left(7, "what could not be sent, and a mistake, change nothing")
			copied := j
			require.NoError(t, end(ctx, j), first)
			left(10, first)
			require.ErrorIs(t, again(ctx, copied), core.ErrSettled, "%s after %s", second, first)
			left(10, second+" after "+first+" changes nothing")
		}
	}
	charges[0].Cost = 11
	denied := take()
	require.False(t, denied.Allowed)
	for range 2 {
		require.NoError(t, denied.Undo(ctx), "a denied request took nothing")
	}
	left(10, "a denied request")
}
