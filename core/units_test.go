package core_test

import (
	"errors"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/tokenbucket-go/ratelimit/core"
	"github.com/tokenbucket-go/ratelimit/internal/limittest"
)

// In shadow mode a denied request has taken nothing, so nothing can come back.
func TestShadowDenialOfUnitsAloneTakesNothing(t *testing.T) {
	ctx := t.Context()
	l, err := core.NewLimiter(core.NewMemoryStore(), core.Policy{
		Name: "api", Limits: []core.Limit{core.PerDay(10), core.PerDay(100).WithUnit("tokens")}, Shadow: true,
	})
	require.NoError(t, err)
	core.Must(l.AllowUnits(ctx, "k", core.Units{"tokens": 60}))
	res := core.Must(l.AllowUnits(ctx, "k", core.Units{core.Requests: 0, "tokens": 60}))
	assert.True(t, res.Allowed)
	assert.True(t, res.ShadowDenied)
	require.NoError(t, res.Undo(ctx))
	require.NoError(t, res.Settle(ctx, core.Units{"tokens": 0}))
	assert.Equal(t, []int64{9, 40}, left(t, l))
}

func TestAllowAtMostInShadowModeAndWithoutAStore(t *testing.T) {
	ctx := t.Context()
	policy := core.Policy{Name: "api", Limits: []core.Limit{core.PerDay(10)}, Shadow: true}
	l := core.Must(core.NewLimiter(core.NewMemoryStore(), policy))
	for _, want := range []int64{7, 3} {
		res := core.Must(l.AllowAtMost(ctx, "k", 7))
		assert.Equal(t, want, res.Cost)
		assert.False(t, res.ShadowDenied)
	}
	res := core.Must(l.AllowAtMost(ctx, "k", 7))
	assert.True(t, res.ShadowDenied, "none were left")

	policy.Shadow, policy.OnFailure = false, core.FailOpen
	l = core.Must(core.NewLimiter(&limittest.AwayStore{Err: errors.New("away")}, policy))
	res = core.Must(l.AllowAtMost(ctx, "k", 7))
	assert.EqualValues(t, 7, res.Cost, "nobody says that there are fewer")
	j := core.Must(core.AllowTogether(ctx, core.Charge{Limiter: l, Key: "a", Cost: 3}, core.Charge{Limiter: l, Key: "b", Cost: 4}))
	assert.EqualValues(t, 3, j.Parts[0].Cost)
	assert.EqualValues(t, 4, j.Parts[1].Cost)
}

// Requests that are asked for by number are a unit like others: where no limit
// counts them it is an error. A key whose own limits count none has no limit of
// them.
func TestRequestsThatNoLimitCounts(t *testing.T) {
	ctx := t.Context()
	tokens := core.PerDay(100).WithUnit("tokens")
	l := limittest.Limiter(t, core.NewMemoryStore(), "tokens", tokens)
	for _, take := range []func() error{
		func() error { _, err := l.AllowN(ctx, "k", 7); return err },
		func() error { _, err := l.AllowAtMost(ctx, "k", 7); return err },
		func() error { _, err := l.AllowUnits(ctx, "k", core.Units{core.Requests: 7, "tokens": 5}); return err },
		func() error { return l.Debit(ctx, "k", 7) },
	} {
		require.ErrorIs(t, take(), core.ErrUnit)
	}
	for _, units := range []core.Units{{"tokens": 5}, {core.Requests: 0, "tokens": 5}, {}} {
		res := core.Must(l.AllowUnits(ctx, "k", units))
		assert.True(t, res.Allowed)
	}
	assert.Equal(t, []int64{90}, left(t, l))

	own, err := core.NewLimiter(core.NewMemoryStore(), core.Policy{
		Name: "own", Limits: []core.Limit{tokens}, Overrides: map[string][]core.Limit{"other": {core.PerDay(10)}},
	})
	require.NoError(t, err)
	for key, want := range map[string]int64{"k": 70, "other": 10} {
		res := core.Must(own.AllowAtMost(ctx, key, 70))
		assert.Equal(t, want, res.Cost, key)
	}
	assert.Equal(t, []int64{100}, left(t, own))
}

// A limit that counted tokens when the decision was made was charged nothing,
// so nothing comes back to it.
func TestUndoReturnsNothingToALimitThatCountedAnotherUnit(t *testing.T) {
	policy := core.Policy{Name: "api", Limits: []core.Limit{core.PerDay(5).WithName("a"), core.PerDay(5).WithName("b").WithUnit("tokens")}}
	l := core.Must(core.NewLimiter(core.NewMemoryStore(), policy))
	res := allow(t, l, 2)
	policy.Limits = []core.Limit{core.PerDay(5).WithName("b")}
	require.NoError(t, l.SetPolicy(policy))
	allow(t, l, 3)
	require.NoError(t, res.Undo(t.Context()))
	wantLeft(t, l, "3 of 5 were taken", 2)
}
