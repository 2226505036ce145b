package core_test

import (
	"encoding/json"
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

// A block is a decision of a person: what the request asked for and what the
// limits have is as without it.
func TestBlockedKeysAreDeniedWhateverTheyAsk(t *testing.T) {
	bothstores.Run(t, func(t *testing.T, newStore func(store.Option) core.Store) {
		limiter := core.Must(core.NewLimiter(newStore(core.WithClock(limittest.NewClock().Now)), blocking(
			core.PerHour(5), core.PerHour(1000).WithUnit("tokens"), core.InFlight(3))))
		ctx := t.Context()
		for call, ask := range map[string]func() (core.Result, error){
			"Allow":      func() (core.Result, error) { return limiter.Allow(ctx, "mallory") },
			"AllowN":     func() (core.Result, error) { return limiter.AllowN(ctx, "mallory", 3) },
			"AllowUnits": func() (core.Result, error) { return limiter.AllowUnits(ctx, "mallory", core.Units{"tokens": 7}) },
			"units without a request": func() (core.Result, error) {
				return limiter.AllowUnits(ctx, "mallory", core.Units{core.Requests: 0, "tokens": 1})
			},
			"AllowAtMost": func() (core.Result, error) { return limiter.AllowAtMost(ctx, "mallory", 5) },
			"Peek":        func() (core.Result, error) { return limiter.Peek(ctx, "mallory") },
		} {
			for range 2 {
				res, err := ask()
				wantBlocked(t, res, err, call)
				for _, l := range res.Limits() {
					assert.True(t, l.Violated, "%s: each limit denies", call)
					assert.Equal(t, l.Limit.Capacity, l.Remaining, "%s: nothing was taken of %q", call, l.Limit.Name)
				}
				if call == "AllowN" {
					assert.Equal(t, []int64{3, 0, 3}, []int64{res.Limits()[0].Cost, res.Limits()[1].Cost, res.Limits()[2].Cost})
				}
			}
		}
		assert.True(t, core.Must(limiter.Allow(ctx, "alice")).Allowed, "others pass")

		rate := core.Must(core.NewLimiter(newStore(core.WithClock(time.Now)), blocking(core.PerHour(5))))
		res, err := rate.Reserve(ctx, "mallory", 1)
		wantBlocked(t, res, err, "Reserve")
		assert.Error(t, rate.Wait(ctx, "mallory"), "Wait returns at once")
	})
}

// A block denies what costs something: see Policy.Blocked. Both ways to block a
// key, and all ways to ask, have the same rule, with a store and without.
func TestRequestsOfABlockedKeyThatCostNothingPass(t *testing.T) {
	tokens, none := core.PerHour(1000).WithUnit("tokens"), core.Units{core.Requests: 0, "tokens": 0}
	mixed, alone := []core.Limit{core.PerHour(5), tokens, core.InFlight(3)}, []core.Limit{tokens}
	bothstores.Run(t, func(t *testing.T, newStore func(store.Option) core.Store) {
		s, away := newStore(core.WithClock(limittest.NewClock().Now)), newAskedStore()
		away.down.Store(true)
		var all *core.Limiter
		check := func(t *testing.T, l *core.Limiter, policy core.Policy, source core.Source, free, costs []core.Units) {
			t.Helper()
			ctx := t.Context()
			for _, units := range slices.Concat(free, costs) {
				want := slices.ContainsFunc(free, func(f core.Units) bool { return maps.Equal(f, units) })
				res := core.Must(l.AllowUnits(ctx, "mallory", units))
				assert.Equal(t, want, res.Allowed, "AllowUnits of %v", units)
				assert.Equal(t, source, res.Source, "premise")
				for _, beside := range [][]core.Charge{nil, {{Limiter: all, Key: "all"}}, {{Limiter: l, Key: "mallory", Units: free[0]}}, {{Limiter: l, Key: "alice"}}} {
					if beside != nil && beside[0].Key == "alice" && policy.Limits[0].Unit != "" {
						continue // it counts no requests
					}
					joint := core.Must(core.AllowTogether(ctx, append(slices.Clone(beside), core.Charge{Limiter: l, Key: "mallory", Units: units})...))
					assert.Equal(t, want, joint.Allowed, "a charge of %v beside %v", units, beside)
					if !want {
						assert.Equal(t, core.Never, joint.RetryAfter)
					}
					require.NoError(t, joint.Release(ctx))
					require.NoError(t, joint.Undo(ctx))
				}
			}
			assert.True(t, core.Must(l.AllowN(ctx, "mallory", 0)).Allowed, "AllowN of 0")
			if source != core.FromFailOpen {
				assert.EqualValues(t, 900, limittest.Left(t, all, "all"), "a denial takes nothing from anybody")
			}
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
						used := core.Store(away)
						if mode == core.FailClosed {
							used = s
						}
						source := map[core.FailureMode]core.Source{core.FailLocal: core.FromFallback, core.FailOpen: core.FromFailOpen}[mode]
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
	res := core.Must(l.AllowUnits(t.Context(), "mallory", core.Units{core.Requests: 0}))
	assert.False(t, res.Allowed)
	assert.NotEqual(t, core.Never, res.RetryAfter, "until the debt is paid, and not for ever")
}

func TestShadowModeBlocksNobody(t *testing.T) {
	policy := blocking(core.PerHour(5))
	policy.Shadow = true
	res := core.Must(core.Must(core.NewLimiter(core.NewMemoryStore(), policy)).Allow(t.Context(), "mallory"))
	assert.True(t, res.Allowed && res.ShadowDenied)
}

func TestMistakesShowNoBlockedKey(t *testing.T) {
	var p core.Policy
	err := json.Unmarshal([]byte(`{"name":"api","limits":["5/h"],"blocked":[735511]}`), &p)
	require.Error(t, err)
	assert.NotContains(t, err.Error(), "735511", "a key can be secret")
}
