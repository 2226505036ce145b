package core_test

import (
	"net/http"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/tokenbucket-go/ratelimit/core"
	"github.com/tokenbucket-go/ratelimit/internal/limittest"
)

func TestJointResultSettlesItsOwnChargesWhenTheCallersSliceIsReused(t *testing.T) {
	ctx := t.Context()
	l := limittest.Limiter(t, core.NewMemoryStore(core.WithClock(limittest.NewClock().Now)), "api", core.PerHour(10))
	charges := []core.Charge{{Limiter: l, Key: "ann", Cost: 4}, {Limiter: l, Key: "acme", Cost: 4}}
	settled, err := core.AllowTogether(ctx, charges...)
	require.NoError(t, err)
	undone, err := core.AllowTogether(ctx, charges...)
	require.NoError(t, err)
	charges[0].Key, charges[1] = "bob", core.Charge{}
	require.NoError(t, settled.Settle(ctx, core.Units{core.Requests: 1}))
	require.NoError(t, undone.Undo(ctx))
	assert.EqualValues(t, 9, limittest.Left(t, l, "ann"))
	assert.EqualValues(t, 9, limittest.Left(t, l, "acme"))
}

// Tests of handlers make JointResults that no limiter returned.
func TestJointResultThatNoLimiterReturned(t *testing.T) {
	ctx := t.Context()
	for _, j := range []core.JointResult{{}, {Allowed: true, Results: []core.Result{{Allowed: true}}}, {Results: []core.Result{{}, {Allowed: true}}}} {
		assert.ErrorIs(t, j.Undo(ctx), core.ErrNoDecision)
		assert.ErrorIs(t, j.Settle(ctx, nil), core.ErrNoDecision)
		assert.ErrorIs(t, j.Settle(ctx, core.Units{core.Requests: 1}), core.ErrUnit, "no limiter counts anything")
		j.WriteHeaders(http.Header{})
		assert.Equal(t, http.StatusTooManyRequests, j.Problem().Status)
	}
}

func TestTogetherWithALimiterThatNoConstructorReturned(t *testing.T) {
	l := limittest.Limiter(t, core.NewMemoryStore(), "api", core.PerHour(10))
	_, err := core.AllowTogether(t.Context(), core.Charge{Limiter: l, Key: "ann"}, core.Charge{Limiter: &core.Limiter{}, Key: "ann"})
	require.ErrorIs(t, err, core.ErrNoLimiter)
	require.ErrorContains(t, err, "(RL615): charge 1")
	assert.EqualValues(t, 10, limittest.Left(t, l, "ann"))
}
