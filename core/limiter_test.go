package core_test

import (
	"context"
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

func TestTokensTakenBeforeSetPolicyReturnToTheirLimits(t *testing.T) {
	h, d := core.PerHour(10).WithName("h"), core.PerDay(5).WithName("d")
	l := limittest.Limiter(t, core.NewMemoryStore(core.WithClock(limittest.NewClock().Now)), "api", h)
	taken := allow(t, l, 4)
	r := core.Must(l.Reserve(t.Context(), "k", 1))
	require.NoError(t, l.SetPolicy(core.Policy{Name: "api", Limits: []core.Limit{h, d}}))
	allow(t, l, 5)
	require.NoError(t, r.Undo(t.Context()))
	require.NoError(t, taken.Undo(t.Context()))
	wantLeft(t, l, "a limit added later gets nothing back", 5, 0)
}

func TestFallbackKeepsItsTokensAcrossSetPolicy(t *testing.T) {
	ctx, s := t.Context(), newAskedStore()
	policy := core.Policy{Name: "api", Limits: []core.Limit{core.PerDay(5)}}
	l := core.Must(core.NewLimiter(s, policy))
	allow(t, l, 5)
	s.down.Store(true)
	granted := allow(t, l, 5)
	require.Equal(t, core.FromFallback, granted.Source)
	for _, mode := range []core.FailureMode{core.FailOpen, core.FailLocal, core.FailClosed, core.FailLocal} {
		policy.OnFailure = mode
		require.NoError(t, l.SetPolicy(policy))
	}
	assert.False(t, core.Must(l.Allow(ctx, "k")).Allowed, "changing OnFailure and back must not fill the fallback's bucket")
	policy.OnFailure = core.FailOpen
	require.NoError(t, l.SetPolicy(policy))
	s.down.Store(false)
	require.NoError(t, granted.Undo(ctx))
	assert.False(t, core.Must(l.Allow(ctx, "k")).Allowed, "Undo must return the fallback's tokens to the fallback")
}

func TestShadowModeMakesNoCallerWait(t *testing.T) {
	policy := core.Policy{Name: "api", Limits: []core.Limit{core.PerHour(1)}}
	l := core.Must(core.NewLimiter(core.NewMemoryStore(), policy))
	for range 4 { // so that tokens are promised ahead
		core.Must(l.Reserve(t.Context(), "k", 1))
	}
	policy.Shadow = true
	require.NoError(t, l.SetPolicy(policy))
	r := core.Must(l.Reserve(t.Context(), "k", 1))
	assert.True(t, r.Allowed)
	assert.Zero(t, r.Delay())
	require.NoError(t, r.Undo(t.Context()))
	short, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	require.NoError(t, l.Wait(short, "k"))
}

func TestShadowModeDecidesAndDeniesNoRequest(t *testing.T) {
	l, reply := watched(t, core.NewMemoryStore(), core.Policy{Name: "api", Limits: []core.Limit{core.PerDay(2)}, Shadow: true})
	for i := range 4 {
		res := allow(t, l, 1)
		assert.Equal(t, i >= 2, res.ShadowDenied, "request %d of a bucket of 2", i+1)
		assert.Zero(t, res.RetryAfter)
		assert.Equal(t, i >= 2, res.Limits()[0].Violated)
		h := http.Header{}
		res.WriteHeaders(h)
		assert.Empty(t, h, "shadow mode sends no header fields")
		if res.ShadowDenied {
			require.NoError(t, res.Undo(t.Context()), "nothing was taken")
		}
	}
	assert.Equal(t, core.OutcomeAllowed, (*reply)[1].Outcome)
	assert.Equal(t, core.OutcomeShadowDenied, (*reply)[3].Outcome)
	peek := core.Must(l.Peek(t.Context(), "k"))
	assert.Zero(t, peek.Remaining, "shadow mode takes tokens, and Undo of a shadow denial returns none")
	assert.True(t, peek.ShadowDenied, "a request would be denied")
	assert.True(t, allow(t, l, 99).ShadowDenied, "a cost above the capacity")
}

func TestShadowModeAllowsRequestsWhileTheStoreIsAway(t *testing.T) {
	away := newAskedStore()
	away.down.Store(true)
	l := core.Must(core.NewLimiter(away, core.Policy{Name: "api", Limits: []core.Limit{core.PerDay(1)}, OnFailure: core.FailClosed, Shadow: true}))
	res := allow(t, l, 1)
	assert.Equal(t, core.FromFailOpen, res.Source)
	require.Error(t, res.Cause)
	_, err := l.AllowN(t.Context(), "k", -1)
	require.ErrorIs(t, err, core.ErrCost, "a negative cost is an error in shadow mode too")
	gone, cancel := context.WithCancel(t.Context())
	cancel()
	_, err = l.Allow(gone, "k")
	assert.ErrorIs(t, err, context.Canceled)
}

// What CheckPolicy says of a policy is what SetPolicy then says. A mistake
// changes nothing.
func TestCheckPolicyIsADryRunOfSetPolicy(t *testing.T) {
	before := core.Policy{Name: "api", Limits: []core.Limit{core.PerHour(10)}, Plans: map[string][]core.Limit{"pro": {core.PerHour(20)}}}
	limiter := core.Must(core.NewLimiter(core.NewMemoryStore(), before))
	pro := core.Must(limiter.WithPlan("pro"))
	core.Must(limiter.Allow(t.Context(), "k"))
	for name, test := range map[string]struct {
		change func(*core.Policy)
		want   []string
	}{
		"another limit":                {func(p *core.Policy) { p.Limits = []core.Limit{core.PerHour(4)} }, nil},
		"a mistake in a limit":         {func(p *core.Policy) { p.Limits = []core.Limit{{}} }, []string{"Policy.Limits[0].Capacity"}},
		"another name and a mistake":   {func(p *core.Policy) { p.Name, p.Limits = "other", []core.Limit{{}} }, []string{`Policy.Name: "other" must stay "api"`, "Policy.Limits[0].Capacity"}},
		"a taken unit that is dropped": {func(p *core.Policy) { p.Limits, p.Plans = []core.Limit{core.PerHour(4).WithUnit("words")}, nil }, []string{"callers take"}},
	} {
		require.NoError(t, limiter.SetPolicy(before))
		policy := limiter.Policy()
		test.change(&policy)
		for _, l := range []*core.Limiter{limiter, pro} {
			checked := l.CheckPolicy(policy)
			assert.Equal(t, before, limiter.Policy(), "%s: CheckPolicy changes nothing", name)
			set := l.SetPolicy(policy)
			if test.want == nil {
				require.NoError(t, checked, name)
				require.NoError(t, set, name)
				assert.Equal(t, policy, limiter.Policy(), "%s: SetPolicy of a plan's limiter is that of the policy's", name)
				require.NoError(t, limiter.SetPolicy(before))
				continue
			}
			for _, want := range test.want {
				require.ErrorContains(t, set, want, name)
			}
			assert.EqualError(t, checked, set.Error(), name)
			assert.Equal(t, before, limiter.Policy(), "%s: a mistake changes nothing", name)
		}
	}
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
