package core_test

import (
	"context"
	"errors"
	"log/slog"
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

// What CheckPolicy says of a policy is what SetPolicy then says.
func TestCheckPolicyIsADryRunOfSetPolicy(t *testing.T) {
	before := core.Policy{Name: "api", Limits: []core.Limit{core.PerHour(10)}, Plans: map[string][]core.Limit{"pro": {core.PerHour(20)}}}
	limiter := core.Must(core.NewLimiter(core.NewMemoryStore(), before))
	pro := core.Must(limiter.WithPlan("pro"))
	core.Must(limiter.Allow(t.Context(), "k"))
	for name, test := range map[string]struct {
		change func(*core.Policy)
		want   string
	}{
		"another limit":                {func(p *core.Policy) { p.Limits = []core.Limit{core.PerHour(4)} }, ""},
		"a mistake in a limit":         {func(p *core.Policy) { p.Limits = []core.Limit{{}} }, "Policy.Limits[0].Capacity"},
		"another name":                 {func(p *core.Policy) { p.Name = "other" }, `must stay "api"`},
		"a taken unit that is dropped": {func(p *core.Policy) { p.Limits, p.Plans = []core.Limit{core.PerHour(4).WithUnit("words")}, nil }, "callers take"},
	} {
		t.Run(name, func(t *testing.T) {
			require.NoError(t, limiter.SetPolicy(before))
			policy := limiter.Policy()
			test.change(&policy)
			for which, l := range map[string]*core.Limiter{"the policy's own": limiter, "of a plan": pro} {
				err := l.CheckPolicy(policy)
				if assert.Equal(t, before, limiter.Policy(), "it changes nothing"); test.want == "" {
					assert.NoError(t, err, which)
				} else {
					assert.ErrorContains(t, err, test.want, which)
				}
			}
			checked, set := limiter.CheckPolicy(policy), limiter.SetPolicy(policy)
			if assert.Equal(t, checked == nil, set == nil); set != nil {
				assert.EqualError(t, checked, set.Error())
			}
		})
	}
}

// Limits has what decides about a key: its plan, overrides and exceptions.
func TestLimitsAreThoseThatDecide(t *testing.T) {
	named := func(n int, name string) core.Limit { return core.PerHour(n).WithName(name) }
	limiter := core.Must(core.NewLimiter(core.NewMemoryStore(), core.Policy{
		Name: "api", Limits: []core.Limit{named(10, "hour"), core.PerDay(50).WithName("day")},
		Plans: map[string][]core.Limit{"pro": {named(100, "hour")}}, Overrides: map[string][]core.Limit{"ann": {named(11, "hour")}},
		Blocked: []string{"eve"},
	}))
	pro := core.Must(limiter.WithPlan("pro"))
	require.NoError(t, limiter.SetExceptions(core.Exceptions{Overrides: map[string][]core.Limit{"bob": {named(12, "hour")}}, Blocked: []string{"mal"}}))
	day := core.PerDay(50).WithName("day")
	for _, test := range []struct {
		name string
		l    *core.Limiter
		key  string
		want []core.Limit
	}{
		{"the policy's", limiter, "any", []core.Limit{named(10, "hour"), day}},
		{"an override", limiter, "ann", []core.Limit{named(11, "hour"), day}},
		{"an exception", limiter, "bob", []core.Limit{named(12, "hour"), day}},
		{"of a plan", pro, "any", []core.Limit{named(100, "hour")}},
		{"an override of a plan's", pro, "ann", []core.Limit{named(11, "hour")}},
		{"of a blocked key", limiter, "eve", []core.Limit{named(10, "hour"), day}},
		{"of a key that an exception blocks", limiter, "mal", []core.Limit{named(10, "hour"), day}},
		{"of WithLimits", core.Must(limiter.WithLimits(named(7, "hour"))), "any", []core.Limit{named(7, "hour")}},
	} {
		assert.Equal(t, test.want, test.l.Limits(test.key), test.name)
		res, err := test.l.Peek(t.Context(), test.key)
		require.NoError(t, err)
		var decided []core.Limit
		for _, l := range res.Limits() {
			decided = append(decided, l.Limit)
		}
		assert.Equal(t, test.want, decided, "%s: these decide", test.name)
	}
	limiter.Limits("any")[0].Capacity = 1
	assert.EqualValues(t, 10, limiter.Limits("any")[0].Capacity, "the list is the caller's")
	assert.Equal(t, "api-1h", core.Must(core.NewLimiter(core.NewMemoryStore(), core.Policy{Name: "api", Limits: []core.Limit{core.PerHour(1), core.PerDay(2)}})).Limits("k")[0].Name)
}

// A logger of the limiter comes before that of its store, and both before the
// default.
func TestLoggerOfALimiter(t *testing.T) {
	own, ofStore := slog.New(slog.DiscardHandler), slog.New(slog.DiscardHandler)
	policy := core.Policy{Name: "api", Limits: []core.Limit{core.PerHour(1)}}
	assert.Same(t, slog.Default(), core.Must(core.NewLimiter(core.NewMemoryStore(), policy)).Logger())
	s := loggingStore{core.NewMemoryStore(), &store.Config{Logger: ofStore}}
	assert.Same(t, ofStore, core.Must(core.NewLimiter(s, policy)).Logger())
	assert.Same(t, own, core.Must(core.NewLimiter(s, policy, core.WithLogger(own))).Logger())
}

// loggingStore is a store with a configuration.
type loggingStore struct {
	core.Store
	config *store.Config
}

func (s loggingStore) Config() *store.Config { return s.config }
