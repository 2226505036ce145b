package core_test

import (
	"context"
	"errors"
	"net/http"
	"sync"
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
	require.NoError(t, r.Undo(ctx))
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
	assert.True(t, r.Allowed)
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
	require.ErrorIs(t, r.Undo(gone), context.Canceled)
	require.NoError(t, r.Undo(context.Background()))
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
	assert.True(t, peek.ShadowDenied, "a request would be denied")

	began := time.Now()
	require.NoError(t, l.Wait(ctx, "k"))
	assert.Less(t, time.Since(began), time.Hour, "shadow mode makes no caller wait")
	r, err := l.Reserve(ctx, "k", 2)
	require.NoError(t, err)
	assert.True(t, r.Allowed)
	assert.Zero(t, r.Delay())
	require.NoError(t, r.Undo(ctx))
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

func TestASnapshotKeepsItsPolicy(t *testing.T) {
	policy := core.Policy{Name: "api", Limits: []core.Limit{core.PerHour(10)}}
	limiter := core.Must(core.NewLimiter(core.NewMemoryStore(), policy))
	before := snapshot(limiter)
	policy.Limits = []core.Limit{core.PerHour(4)}
	require.NoError(t, limiter.SetPolicy(policy))
	assert.EqualValues(t, 10, before.Capacity("k"), "a snapshot keeps its policy")
	assert.EqualValues(t, 10, snapshot(before).Capacity("k"), "a snapshot of a snapshot, too")
	assert.EqualValues(t, 4, snapshot(limiter).Capacity("k"), "a new one has the new policy")

	res, err := before.AllowN(t.Context(), "k", 3)
	require.NoError(t, err)
	assert.EqualValues(t, 7, res.Remaining, "it decides by its policy")
	left, err := limiter.Peek(t.Context(), "k")
	require.NoError(t, err)
	assert.EqualValues(t, 1, left.Remaining, "and shares its buckets")
	require.NoError(t, res.Undo(t.Context()))
	left, err = limiter.Peek(t.Context(), "k")
	require.NoError(t, err)
	assert.EqualValues(t, 4, left.Remaining, "its decisions can be undone")

	_, err = before.AllowUnits(t.Context(), "k", core.Units{core.Requests: 1})
	require.NoError(t, err)
	policy.Limits = []core.Limit{core.PerHour(4).WithUnit("tokens")}
	assert.ErrorContains(t, limiter.SetPolicy(policy), "callers take", "what callers take of a snapshot, they take of its limiter")
}

// What a joint decision of snapshots took goes back to the limits that exist
// then.
func TestAJointDecisionOfSnapshotsIsSettledByThePolicyOfThen(t *testing.T) {
	store := core.NewMemoryStore()
	policy := core.Policy{Name: "api", Limits: []core.Limit{core.PerHour(10).WithName("a")}}
	limiter := core.Must(core.NewLimiter(store, policy))
	other := core.Must(core.NewLimiter(store, core.Policy{Name: "other", Limits: []core.Limit{core.PerHour(10)}}))
	joint, err := core.AllowTogether(t.Context(), core.Charge{Limiter: snapshot(limiter), Key: "k", Cost: 3}, core.Charge{Limiter: other, Key: "k"})
	require.NoError(t, err)
	policy.Limits = []core.Limit{core.PerHour(20).WithName("a"), core.PerHour(5).WithName("t").WithUnit("tokens")}
	require.NoError(t, limiter.SetPolicy(policy))
	require.NoError(t, joint.Settle(t.Context(), core.Units{core.Requests: 1, "tokens": 2}), "the limiter counts tokens now")
	left, err := limiter.Peek(t.Context(), "k")
	require.NoError(t, err)
	assert.EqualValues(t, 19, left.Limits()[0].Remaining, "what was too much came back to the limit of then")
}

// A policy that changes all the time must not keep snapshots from deciding (run
// it with -race).
func TestSnapshotsWhileThePolicyChanges(t *testing.T) {
	policy := core.Policy{Name: "api", Limits: []core.Limit{core.PerHour(1000)}}
	clock := func() time.Time { return time.Unix(1_000_000_000, 0) }
	limiter := core.Must(core.NewLimiter(core.NewMemoryStore(core.WithClock(clock)), policy))
	var wg sync.WaitGroup
	for range 4 {
		wg.Go(func() {
			for range 200 {
				now := snapshot(limiter)
				most := now.Capacity("k")
				res, err := now.AllowN(t.Context(), "k", most)
				if assert.NoError(t, err) {
					assert.NotEqual(t, core.Never, res.RetryAfter, "a snapshot's Capacity can be taken of it")
					assert.NoError(t, res.Undo(t.Context()))
				}
			}
		})
	}
	for i := range 400 {
		policy.Limits = []core.Limit{core.PerHour(1000 - 2*i)}
		require.NoError(t, limiter.SetPolicy(policy))
	}
	wg.Wait()
}
