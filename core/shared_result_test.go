package core_test

import (
	"net/http"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/tokenbucket-go/ratelimit/core"
)

// Of all Results of a SharedResult, and the shared one, one can be undone.
func TestASharedResultEndsOnce(t *testing.T) {
	ctx := t.Context()
	l := core.Must(core.NewLimiter(core.NewMemoryStore(), core.Policy{Name: "api", Limits: []core.Limit{core.PerDay(9)}}))
	single := core.Must(l.AllowN(ctx, "k", 3))
	joint := core.Must(core.AllowTogether(ctx, core.Charge{Limiter: l, Key: "k", Cost: 2}, core.Charge{Limiter: l, Key: "other"}))
	for name, res := range map[string]*core.Result{"one limiter": &single, "several": &joint} {
		var shared core.SharedResult
		shared.Share(res)
		one, two := shared.Result(), shared.Result()
		assert.Equal(t, res.Limits(), one.Limits(), name)
		require.NoError(t, one.Undo(ctx), name)
		for _, other := range []*core.Result{&one, &two, res} {
			require.ErrorIs(t, other.Undo(ctx), core.ErrSettled, name)
			require.ErrorIs(t, other.Settle(ctx, core.Units{core.Requests: 1}), core.ErrSettled, name)
		}
	}
	assert.EqualValues(t, 9, core.Must(l.Peek(ctx, "k")).Remaining)
}

// A SharedResult writes the fields of its Result, without an allocation of its
// own.
func TestFieldsOfASharedResult(t *testing.T) {
	l := core.Must(core.NewLimiter(core.NewMemoryStore(), core.Policy{Name: "api", Limits: []core.Limit{core.PerDay(1)}}))
	for range 2 {
		res := core.Must(l.Allow(t.Context(), "k"))
		shared, own, others := new(core.SharedResult), http.Header{}, http.Header{}
		shared.Share(&res)
		shared.WriteHeaders(own)
		res.WriteHeaders(others)
		assert.Equal(t, others, own)
	}
	res, header := core.Must(l.Allow(t.Context(), "free")), http.Header{}
	fields := make([]core.SharedResult, 102)
	assert.Zero(t, testing.AllocsPerRun(100, func() {
		clear(header)
		fields[0].Share(&res)
		fields[0].WriteHeaders(header)
		fields = fields[1:]
	}))
}

// Policy names who decided.
func TestPolicyOfAResult(t *testing.T) {
	l := core.Must(core.NewLimiter(core.NewMemoryStore(), core.Policy{
		Name: "api", Limits: []core.Limit{core.PerDay(1)}, Plans: map[string][]core.Limit{"pro": {core.PerDay(2)}},
	}))
	res := core.Must(core.Must(l.WithPlan("pro")).Allow(t.Context(), "k"))
	assert.Equal(t, "api", res.Policy())
	joint := core.Must(core.AllowTogether(t.Context(), core.Charge{Limiter: l, Key: "k"}))
	assert.Empty(t, joint.Policy())
	assert.Equal(t, "api", joint.Parts[0].Policy())
	assert.Empty(t, new(core.Result).Policy())
}
