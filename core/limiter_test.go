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
	"github.com/tokenbucket-go/ratelimit/core/store"
	"github.com/tokenbucket-go/ratelimit/internal/limittest"
)

// fickleStore is a MemoryStore that fails while away is set.
type fickleStore struct {
	*core.MemoryStore

	away bool
}

func (s *fickleStore) Do(ctx context.Context, r store.Request) (store.Answer, error) {
	if s.away {
		return store.Answer{}, errors.New("away")
	}
	return s.MemoryStore.Do(ctx, r)
}

func TestTokensTakenBeforeSetPolicyReturnToTheirLimits(t *testing.T) {
	ctx := context.Background()
	old := core.Policy{Name: "api", Limits: []core.Limit{core.PerHour(10).WithName("h")}}
	next := core.Policy{Name: "api", Limits: []core.Limit{core.PerHour(10).WithName("h"), core.PerDay(5).WithName("d")}}
	l, err := core.NewLimiter(core.NewMemoryStore(core.WithClock(limittest.NewClock().Now)), old)
	require.NoError(t, err)
	taken, err := l.AllowN(ctx, "k", 4)
	require.NoError(t, err)
	r, err := l.Reserve(ctx, "k", 1)
	require.NoError(t, err)
	require.NoError(t, l.SetPolicy(next))
	res, err := l.AllowN(ctx, "k", 5)
	require.NoError(t, err)
	require.True(t, res.Allowed)
	require.NoError(t, r.Cancel(ctx))
	require.NoError(t, taken.Undo(ctx))
	res, err = l.Peek(ctx, "k")
	require.NoError(t, err)
	assert.Equal(t, []int64{5, 0}, []int64{res.Limits()[0].Remaining, res.Limits()[1].Remaining}, "a limit added later gets nothing back")
}

func TestFallbackKeepsItsTokensAcrossSetPolicy(t *testing.T) {
	ctx := context.Background()
	store := &fickleStore{core.NewMemoryStore(), false}
	policy := core.Policy{Name: "api", Limits: []core.Limit{core.PerDay(5)}}
	l, err := core.NewLimiter(store, policy)
	require.NoError(t, err)
	_, err = l.AllowN(ctx, "k", 5)
	require.NoError(t, err)
	store.away = true
	granted, err := l.AllowN(ctx, "k", 5)
	require.NoError(t, err)
	require.Equal(t, core.FromFallback, granted.Source)
	for _, mode := range []core.FailureMode{core.FailOpen, core.FailLocal, core.FailClosed, core.FailLocal} {
		policy.OnFailure = mode
		require.NoError(t, l.SetPolicy(policy))
	}
	res, err := l.Allow(ctx, "k")
	require.NoError(t, err)
	assert.False(t, res.Allowed, "changing OnFailure and back must not fill the fallback's bucket")
	policy.OnFailure = core.FailOpen
	require.NoError(t, l.SetPolicy(policy))
	store.away = false
	require.NoError(t, granted.Undo(ctx))
	res, err = l.Allow(ctx, "k")
	require.NoError(t, err)
	assert.False(t, res.Allowed, "Undo must return the fallback's tokens to the fallback")
}

func TestUnknownCostTakesTheSmallestCapacityInForce(t *testing.T) {
	ctx := context.Background()
	store := &fickleStore{core.NewMemoryStore(), false}
	l, err := core.NewLimiter(store, core.Policy{Name: "api", Limits: []core.Limit{core.PerDay(100), core.PerHour(40)}, LocalShare: 0.5})
	require.NoError(t, err)
	res, err := allowAll(l, ctx, "k")
	require.NoError(t, err)
	assert.True(t, res.Allowed)
	assert.Equal(t, int64(40), res.Cost)
	store.away = true
	res, err = allowAll(l, ctx, "k")
	require.NoError(t, err)
	assert.True(t, res.Allowed, "an unknown cost takes what this process grants alone")
	assert.Equal(t, int64(20), res.Cost)
}

func TestShadowModeMakesNoCallerWait(t *testing.T) {
	ctx := context.Background()
	policy := core.Policy{Name: "api", Limits: []core.Limit{core.PerHour(1)}}
	l, err := core.NewLimiter(core.NewMemoryStore(), policy)
	require.NoError(t, err)
	for range 4 { // so that tokens are promised ahead
		_, err := l.Reserve(ctx, "k", 1)
		require.NoError(t, err)
	}
	policy.Shadow = true
	require.NoError(t, l.SetPolicy(policy))
	r, err := l.Reserve(ctx, "k", 1)
	require.NoError(t, err)
	assert.True(t, r.OK())
	assert.Zero(t, r.Delay())
	short, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	require.NoError(t, l.Wait(short, "k"))
}

func TestCancelWithEndedContextCanBeRepeated(t *testing.T) {
	l := limittest.Limiter(t, core.NewMemoryStore(core.WithClock(limittest.NewClock().Now)), "api", core.PerDay(2))
	r, err := l.Reserve(context.Background(), "k", 2)
	require.NoError(t, err)
	gone, cancel := context.WithCancel(context.Background())
	cancel()
	require.ErrorIs(t, r.Cancel(gone), context.Canceled)
	require.NoError(t, r.Cancel(context.Background()))
	res, err := l.Peek(context.Background(), "k")
	require.NoError(t, err)
	assert.Equal(t, int64(2), res.Remaining)
}

func TestExtremePoliciesAreRefusedOrWork(t *testing.T) {
	away := &limittest.AwayStore{Err: errors.New("away")}
	for _, share := range []float64{5e-324, 1e-300, 1e-9} {
		l, err := core.NewLimiter(away, core.Policy{Name: "api", Limits: []core.Limit{{Capacity: 1, RefillRate: 0.4, RefillInterval: time.Second}}, LocalShare: share})
		require.NoError(t, err)
		res, err := l.Allow(context.Background(), "k")
		require.NoError(t, err)
		assert.True(t, res.Allowed)
		h := http.Header{}
		res.WriteHeaders(h)
		assert.NotContains(t, h.Get("RateLimit-Policy"), "w=0", "%g", share)
	}
	_, err := core.NewLimiter(away, core.Policy{Name: "api", Limits: make([]core.Limit, 65)})
	require.ErrorContains(t, err, "Policy.Limits: 65 limits: at most 64 can hold together")
}

// Overrides of other keys change nothing.
func TestTokensOfATierReturnToItThroughAnyLimiter(t *testing.T) {
	for _, overrides := range []map[string][]core.Limit{nil, {"vip": {core.PerHour(5)}}} {
		policy := core.Policy{Name: "api", Limits: []core.Limit{core.PerHour(100)}, Overrides: overrides}
		l := core.Must(core.NewLimiter(core.NewMemoryStore(), policy))
		tier := core.Must(l.WithLimits(core.PerHour(1000)))
		res, err := tier.AllowN(t.Context(), "k", 10)
		require.NoError(t, err)
		require.NoError(t, res.Settle(t.Context(), core.Units{core.Requests: 4}))
		res, err = tier.Peek(t.Context(), "k")
		require.NoError(t, err)
		require.Equal(t, int64(1000-4), res.Remaining, "with %d overrides", len(overrides))
	}
}
