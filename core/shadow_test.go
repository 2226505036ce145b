package core_test

import (
	"context"
	"errors"
	"net/http"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/tokenbucket-go/ratelimit/core"
	"github.com/tokenbucket-go/ratelimit/internal/limittest"
)

func TestShadowModeDecidesAndDeniesNoRequest(t *testing.T) {
	ctx := context.Background()
	l, reply := watched(t, core.NewMemoryStore(), core.Policy{Name: "api", Limits: []core.Limit{core.PerDay(2)}, Shadow: true})
	for i := range 4 {
		res, err := l.Allow(ctx, "k")
		require.NoError(t, err)
		assert.True(t, res.Allowed)
		assert.Equal(t, i >= 2, res.ShadowDenied, "request %d of a bucket of 2", i+1)
		assert.Zero(t, res.RetryAfter)
		assert.Equal(t, i >= 2, res.Limits()[0].Violated)
		h := http.Header{}
		res.WriteHeaders(h)
		assert.Empty(t, h, "shadow mode sends no header fields")
		if res.ShadowDenied {
			require.NoError(t, res.Undo(ctx), "nothing was taken")
		}
	}
	assert.Equal(t, core.OutcomeAllowed, (*reply)[1].Outcome)
	assert.Equal(t, core.OutcomeShadowDenied, (*reply)[3].Outcome)
	peek, err := l.Peek(ctx, "k")
	require.NoError(t, err)
	assert.Zero(t, peek.Remaining, "shadow mode takes tokens, and Undo of a shadow denial returns none")
	assert.False(t, peek.ShadowDenied)

	began := time.Now()
	require.NoError(t, l.Wait(ctx, "k"))
	assert.Less(t, time.Since(began), time.Hour, "shadow mode makes no caller wait")
	r, err := l.Reserve(ctx, "k", 2)
	require.NoError(t, err)
	assert.True(t, r.OK())
	assert.Zero(t, r.Delay())
	require.NoError(t, r.Cancel(ctx))
	res, err := l.AllowN(ctx, "k", 99)
	require.NoError(t, err)
	assert.True(t, res.ShadowDenied, "a cost above the capacity")
}

func TestShadowModeAllowsRequestsWhileTheStoreIsAway(t *testing.T) {
	ctx := context.Background()
	policy := core.Policy{Name: "api", Limits: []core.Limit{core.PerDay(1)}, OnFailure: core.FailClosed, Shadow: true}
	l, err := core.NewLimiter(&limittest.AwayStore{Err: errors.New("away")}, policy)
	require.NoError(t, err)
	res, err := l.Allow(ctx, "k")
	require.NoError(t, err)
	assert.True(t, res.Allowed)
	assert.Equal(t, core.FromFailOpen, res.Source)
	require.Error(t, res.Cause)
	_, err = l.AllowN(ctx, "k", -1)
	require.ErrorIs(t, err, core.ErrCost, "a negative cost is an error in shadow mode too")
	gone, cancel := context.WithCancel(ctx)
	cancel()
	_, err = l.Allow(gone, "k")
	assert.ErrorIs(t, err, context.Canceled)
}

func TestSetPolicyKeepsTokens(t *testing.T) {
	ctx := context.Background()
	clock := limittest.NewClock()
	l := limittest.Limiter(t, core.NewMemoryStore(core.WithClock(clock.Now)), "api", core.PerDay(10))
	_, err := l.AllowN(ctx, "k", 4)
	require.NoError(t, err)
	remaining := func() int64 {
		res, err := l.Peek(ctx, "k")
		require.NoError(t, err)
		return res.Remaining
	}
	tier, err := l.WithLimits(core.PerDay(5))
	require.NoError(t, err)

	require.NoError(t, l.SetPolicy(core.Policy{Name: "api", Limits: []core.Limit{core.PerDay(100)}}))
	assert.Equal(t, int64(96), remaining(), "4 are used, whatever the capacity")
	assert.Equal(t, int64(100), l.Policy().Limits[0].Capacity)
	assert.Equal(t, core.FailLocal, l.Policy().OnFailure)
	require.NoError(t, l.SetPolicy(core.Policy{Name: "api", Limits: []core.Limit{core.PerDay(3), core.PerHour(50)}}))
	assert.Equal(t, int64(3), remaining(), "of several limits each has its own name, so these start full")
	res, err := tier.Peek(ctx, "k")
	require.NoError(t, err)
	assert.Equal(t, int64(5), res.Limits()[0].Limit.Capacity, "a limiter from WithLimits keeps its limits")

	before := l.Policy()
	err = l.SetPolicy(core.Policy{Name: "other", Limits: []core.Limit{{}}})
	require.Error(t, err)
	assert.ErrorContains(t, err, `Policy.Name: "other" must stay "api"`)
	assert.ErrorContains(t, err, "Policy.Limits[0].Capacity")
	assert.Equal(t, before, l.Policy(), "a mistake changes nothing")
}
