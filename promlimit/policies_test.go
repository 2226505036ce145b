package promlimit_test

import (
	"maps"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/tokenbucket-go/ratelimit/core"
	"github.com/tokenbucket-go/ratelimit/promlimit"
)

// The gauge shows the limits that are in force, and no others.
func TestLimitsInForceAreExposed(t *testing.T) {
	metrics := promlimit.New(promlimit.WithMaxSeries(2))
	policy := core.Policy{Name: "api", Limits: []core.Limit{core.PerMinute(60), core.PerDay(1000).WithName("daily")}}
	limiter := core.Must(core.NewLimiter(core.NewMemoryStore(), policy, core.WithPolicyObserver(metrics.ObservePolicy)))
	exposes := func(rule string, want map[string]float64) {
		t.Helper()
		got := scrape(t, metrics, "ratelimit_limit_capacity")
		maps.Copy(got, scrape(t, metrics, "ratelimit_policy_changes"))
		assert.Equal(t, want, got, rule)
	}
	const inForce, changes = `ratelimit_limit_capacity{limit="api",plan="",policy="api"}`, `ratelimit_policy_changes_total{policy="api"}`
	exposes("from the start", map[string]float64{
		`ratelimit_limit_capacity{limit="api-1m",plan="",policy="api"}`: 60, `ratelimit_limit_capacity{limit="daily",plan="",policy="api"}`: 1000, changes: 0,
	})
	require.NoError(t, limiter.SetPolicy(policy))
	policy.Limits = []core.Limit{core.PerMinute(60).WithBurst(100)}
	require.NoError(t, limiter.SetPolicy(policy))
	exposes("a limit that is removed has no Capacity, and what changes nothing is no change", map[string]float64{inForce: 100, changes: 1})

	policy.Plans = map[string][]core.Limit{"pro": {core.PerMinute(90)}}
	require.NoError(t, limiter.SetPolicy(policy))
	exposes("those of plans too", map[string]float64{inForce: 100, `ratelimit_limit_capacity{limit="api",plan="pro",policy="api"}`: 90, changes: 2})
	policy.Plans = nil
	require.NoError(t, limiter.SetPolicy(policy))

	for _, name := range []string{"b", "c", "d"} {
		l := core.Must(core.NewLimiter(core.NewMemoryStore(), core.Policy{Name: name, Limits: []core.Limit{core.PerMinute(1)}},
			core.WithPolicyObserver(metrics.ObservePolicy)))
		require.NoError(t, l.SetPolicy(core.Policy{Name: name, Limits: []core.Limit{core.PerMinute(2)}}))
	}
	exposes("the number of series is bounded", map[string]float64{
		inForce: 100, `ratelimit_limit_capacity{limit="b",plan="",policy="b"}`: 2,
		changes: 3, `ratelimit_policy_changes_total{policy="b"}`: 1, `ratelimit_policy_changes_total{policy="(other)"}`: 2,
	})
}
