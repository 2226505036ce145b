package core_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/tokenbucket-go/ratelimit/core"
	"github.com/tokenbucket-go/ratelimit/core/store"
	"github.com/tokenbucket-go/ratelimit/internal/bothstores"
	"github.com/tokenbucket-go/ratelimit/internal/limittest"
)

// blocking is a policy that blocks mallory.
func blocking(limits ...core.Limit) core.Policy {
	return core.Policy{Name: "api", Limits: limits, Blocked: []string{"mallory"}}
}

// wantBlocked checks that a decision is that of a blocked key.
func wantBlocked(t *testing.T, res core.Result, err error, rule string) {
	t.Helper()
	require.NoError(t, err, rule)
	assert.False(t, res.Allowed, rule)
	assert.Equal(t, core.Never, res.RetryAfter, rule)
}

func TestBlockedKeysAreDeniedWhateverTheyAsk(t *testing.T) {
	bothstores.Run(t, func(t *testing.T, newStore func(store.Option) core.Store) {
		now := time.Now()
		limiter := core.Must(core.NewLimiter(newStore(core.WithClock(func() time.Time { return now })), blocking(
			core.PerHour(5), core.PerHour(1000).WithUnit("tokens"), core.InFlight(3))))
		ctx := t.Context()
		left := func() []core.LimitResult {
			res, err := limiter.Peek(ctx, "mallory")
			require.NoError(t, err)
			wantBlocked(t, res, err, "Peek")
			return res.Limits()
		}
		for range 3 {
			res, err := limiter.Allow(ctx, "mallory")
			wantBlocked(t, res, err, "Allow")
			for _, l := range res.Limits() {
				assert.True(t, l.Violated, "each limit denies")
			}
			res, err = limiter.AllowN(ctx, "mallory", 3)
			wantBlocked(t, res, err, "AllowN")
			res, err = limiter.AllowUnits(ctx, "mallory", core.Units{"tokens": 7})
			wantBlocked(t, res, err, "AllowUnits")
			res, err = limiter.AllowUnits(ctx, "mallory", core.Units{core.Requests: 0, "tokens": 1})
			wantBlocked(t, res, err, "units without a request")
			res, err = limiter.AllowAtMost(ctx, "mallory", 5)
			wantBlocked(t, res, err, "AllowAtMost")
		}
		for _, l := range left() {
			assert.Equal(t, l.Limit.Capacity, l.Remaining, "nothing was taken of %q", l.Limit.Name)
		}
		res, err := limiter.Allow(ctx, "alice")
		require.NoError(t, err)
		assert.True(t, res.Allowed, "others pass")
	})
}

// A block denies what costs something: see Policy.Blocked. Both ways to block a
// key, and all ways to ask, have the same rule.
func TestRequestsOfABlockedKeyThatCostNothingPass(t *testing.T) {
	tokens, none := core.PerHour(1000).WithUnit("tokens"), core.Units{core.Requests: 0, "tokens": 0}
	mixed, alone := []core.Limit{core.PerHour(5), tokens, core.InFlight(3)}, []core.Limit{tokens}
	bothstores.Run(t, func(t *testing.T, newStore func(store.Option) core.Store) {
		s := newStore(core.WithClock(time.Now))
		var all *core.Limiter
		check := func(t *testing.T, l *core.Limiter, policy core.Policy, source core.Source, free, costs []core.Units) {
			t.Helper()
			ctx := t.Context()
			for _, units := range slices.Concat(free, costs) {
				want := slices.ContainsFunc(free, func(f core.Units) bool { return maps.Equal(f, units) })
				res, err := l.AllowUnits(ctx, "mallory", units)
				require.NoError(t, err)
				assert.Equal(t, want, res.Allowed, "AllowUnits of %v", units)
				assert.Equal(t, source, res.Source, "premise")
				for _, beside := range [][]core.Charge{nil, {{Limiter: all, Key: "all"}}, {{Limiter: l, Key: "mallory", Units: free[0]}}, {{Limiter: l, Key: "alice"}}} {
					if beside != nil && beside[0].Key == "alice" && policy.Limits[0].Unit != "" {
						continue // it counts no requests
					}
					joint, err := core.AllowTogether(ctx, append(slices.Clone(beside), core.Charge{Limiter: l, Key: "mallory", Units: units})...)
					require.NoError(t, err)
					assert.Equal(t, want, joint.Allowed, "a charge of %v beside %v", units, beside)
					require.NoError(t, joint.Release(ctx))
					require.NoError(t, joint.Undo(ctx))
				}
			}
			res, err := l.AllowN(ctx, "mallory", 0)
			require.NoError(t, err)
			assert.True(t, res.Allowed, "AllowN of 0")
		}
		for by, block := range map[string]func(core.Policy) (core.Policy, core.Exceptions){
			"the policy": func(p core.Policy) (core.Policy, core.Exceptions) {
				p.Blocked = []string{"mallory"}
				return p, core.Exceptions{}
			},
			"an exception": func(p core.Policy) (core.Policy, core.Exceptions) {
				return p, core.Exceptions{Blocked: []string{"mallory"}}
			},
		} {
			for what, policy := range map[string]core.Policy{"mixed": {Limits: mixed}, "tokens alone": {Limits: alone}} {
				free, costs := []core.Units{none, {core.Requests: 0}}, []core.Units{{"tokens": 1}, {core.Requests: 0, "tokens": 1}, {"tokens": 0}, {}}
				if what == "tokens alone" { // no limit counts the request that units need not mention
					free, costs = append(free, costs[2:]...), costs[:2]
				}
				for _, mode := range []core.FailureMode{core.FailClosed, core.FailLocal, core.FailOpen} {
					t.Run(fmt.Sprint(by, ", ", what, ", ", mode), func(t *testing.T) {
						policy.Name, policy.OnFailure = by+what, mode
						policy, exceptions := block(policy)
						used, source := s, core.FromStore
						if mode != core.FailClosed {
							used = &limittest.AwayStore{Err: errors.New("away")}
							source = map[core.FailureMode]core.Source{core.FailLocal: core.FromFallback, core.FailOpen: core.FromFailOpen}[mode]
						}
						all = core.Must(core.NewLimiter(used, core.Policy{Name: "all", Limits: []core.Limit{core.PerHour(900)}, OnFailure: mode}))
						l := core.Must(core.NewLimiter(used, policy))
						require.NoError(t, l.SetExceptions(exceptions))
						check(t, l, policy, source, free, costs)
					})
				}
			}
		}
	})
}

// What costs nothing passes a block as a Peek does: a debt denies it all the
// same.
func TestADebtDeniesABlockedKeyWhatCostsNothing(t *testing.T) {
	l := core.Must(core.NewLimiter(core.NewMemoryStore(), blocking(core.PerHour(5))))
	require.NoError(t, l.Debit(t.Context(), "mallory", 9))
	res, err := l.AllowUnits(t.Context(), "mallory", core.Units{core.Requests: 0})
	require.NoError(t, err)
	assert.False(t, res.Allowed)
	assert.NotEqual(t, core.Never, res.RetryAfter, "until the debt is paid, and not for ever")
}

func TestBlockedKeysGetNoPromises(t *testing.T) {
	bothstores.Run(t, func(t *testing.T, newStore func(store.Option) core.Store) {
		limiter := core.Must(core.NewLimiter(newStore(core.WithClock(time.Now)), blocking(core.PerHour(5))))
		r, err := limiter.Reserve(t.Context(), "mallory", 1)
		require.NoError(t, err)
		assert.False(t, r.Allowed, "a reservation")
		assert.Equal(t, core.Never, r.RetryAfter)
		assert.Error(t, limiter.Wait(t.Context(), "mallory"), "Wait returns at once")
	})
}

func TestABlockedKeyDeniesJointDecisions(t *testing.T) {
	bothstores.Run(t, func(t *testing.T, newStore func(store.Option) core.Store) {
		s := newStore(core.WithClock(time.Now))
		users := core.Must(core.NewLimiter(s, blocking(core.PerHour(5))))
		all := core.Must(core.NewLimiter(s, core.Policy{Name: "all", Limits: []core.Limit{core.PerHour(9)}}))
		res, err := core.AllowTogether(t.Context(), core.Charge{Limiter: all, Key: "all"}, core.Charge{Limiter: users, Key: "mallory"})
		require.NoError(t, err)
		assert.False(t, res.Allowed)
		assert.Equal(t, core.Never, res.RetryAfter)
		peeked, err := all.Peek(t.Context(), "all")
		require.NoError(t, err)
		assert.EqualValues(t, 9, peeked.Remaining, "nothing is taken from anybody")
	})
}

func TestBlockedKeysStayBlockedWithoutAStore(t *testing.T) {
	away := &limittest.AwayStore{Err: errors.New("away")}
	for _, mode := range []core.FailureMode{core.FailLocal, core.FailOpen} {
		policy := blocking(core.PerHour(5))
		policy.OnFailure, policy.LocalShare = mode, 0.5
		limiter := core.Must(core.NewLimiter(away, policy))
		res, err := limiter.Allow(t.Context(), "mallory")
		wantBlocked(t, res, err, mode.String())
		res, err = limiter.Allow(t.Context(), "alice")
		require.NoError(t, err)
		assert.True(t, res.Allowed, "%v lets others pass", mode)
		joint, err := core.AllowTogether(t.Context(), core.Charge{Limiter: limiter, Key: "alice"}, core.Charge{Limiter: limiter, Key: "mallory"})
		require.NoError(t, err)
		assert.False(t, joint.Allowed, "%v denies joint decisions", mode)
	}
}

func TestBlocksChangeWhileTheServiceRuns(t *testing.T) {
	bothstores.Run(t, func(t *testing.T, newStore func(store.Option) core.Store) {
		limiter := core.Must(core.NewLimiter(newStore(core.WithClock(time.Now)), core.Policy{Name: "api", Limits: []core.Limit{core.PerHour(5)}}))
		allowed := func() bool {
			res, err := limiter.Allow(t.Context(), "mallory")
			require.NoError(t, err)
			return res.Allowed
		}
		assert.True(t, allowed())
		require.NoError(t, limiter.SetPolicy(blocking(core.PerHour(5))))
		assert.False(t, allowed(), "blocked from the next decision on")
		require.NoError(t, limiter.SetPolicy(core.Policy{Name: "api", Limits: []core.Limit{core.PerHour(5)}}))
		res, err := limiter.Allow(t.Context(), "mallory")
		require.NoError(t, err)
		assert.True(t, res.Allowed, "unblocked from the next decision on, although denials were repeated before")
		assert.EqualValues(t, 3, res.Remaining, "what was left stayed")
	})
}

func TestShadowModeBlocksNobody(t *testing.T) {
	policy := blocking(core.PerHour(5))
	policy.Shadow = true
	res, err := core.Must(core.NewLimiter(core.NewMemoryStore(), policy)).Allow(t.Context(), "mallory")
	require.NoError(t, err)
	assert.True(t, res.Allowed && res.ShadowDenied)
}

func TestABlockedKeyIsBlockedAlsoIfItHasAnOverride(t *testing.T) {
	policy := blocking(core.PerHour(5))
	policy.Overrides = map[string][]core.Limit{"mallory": {core.PerHour(500)}}
	res, err := core.Must(core.NewLimiter(core.NewMemoryStore(), policy)).Allow(t.Context(), "mallory")
	wantBlocked(t, res, err, "Blocked comes first")
}

func TestBlockedInJSON(t *testing.T) {
	policy := blocking(core.PerHour(5))
	text, err := json.Marshal(policy)
	require.NoError(t, err)
	assert.Contains(t, string(text), `"blocked":["mallory"]`)
	var back core.Policy
	require.NoError(t, json.Unmarshal(text, &back))
	assert.Equal(t, policy, back)
	require.NoError(t, json.Unmarshal([]byte(`{"name":"api","limits":["5/h"],"blocked":[""]}`), &back))
	assert.ErrorContains(t, back.Validate(), "Policy.Blocked[0]")
}

func TestMistakesShowNoBlockedKey(t *testing.T) {
	var p core.Policy
	err := json.Unmarshal([]byte(`{"name":"api","limits":["5/h"],"blocked":[735511]}`), &p)
	require.Error(t, err)
	assert.NotContains(t, err.Error(), "735511", "a key can be secret")
}

// A block is a decision of a person: what the request asked for and what the
// limits have is as without it.
func TestLimitsOfABlockedKeyShowTheRequest(t *testing.T) {
	l := core.Must(core.NewLimiter(core.NewMemoryStore(), core.Policy{Name: "api", Blocked: []string{"bob"},
		Limits: []core.Limit{core.PerMinute(9), core.PerMinute(99).WithUnit("tokens")}}))
	res, err := l.AllowN(t.Context(), "bob", 3)
	require.NoError(t, err)
	require.Equal(t, core.Never, res.RetryAfter)
	limits := res.Limits()
	require.EqualValues(t, 3, limits[0].Cost)
	require.EqualValues(t, 9, limits[0].Remaining)
	require.Zero(t, limits[1].Cost)
}
