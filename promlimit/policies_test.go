package promlimit_test

import (
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	"github.com/stretchr/testify/require"

	"github.com/tokenbucket-go/ratelimit/core"
	"github.com/tokenbucket-go/ratelimit/core/storestats"
	"github.com/tokenbucket-go/ratelimit/promlimit"
)

// The gauge shows the limits that are in force, and no others.
func TestLimitsInForceAreExposed(t *testing.T) {
	metrics := promlimit.New(promlimit.WithMaxSeries(2))
	require.NoError(t, prometheus.NewPedanticRegistry().Register(metrics))
	policy := core.Policy{Name: "api", Limits: []core.Limit{core.PerMinute(60), core.PerDay(1000).WithName("daily")}}
	limiter, err := core.NewLimiter(core.NewMemoryStore(), policy, core.WithPolicyObserver(metrics.ObservePolicy))
	require.NoError(t, err)
	exposes := func(want, rule string) {
		t.Helper()
		require.NoError(t, testutil.CollectAndCompare(metrics, strings.NewReader(`
			# HELP ratelimit_limit_capacity Capacity of a limit that is in force.
			# TYPE ratelimit_limit_capacity gauge
			# HELP ratelimit_policy_changes_total How often SetPolicy changed a policy.
			# TYPE ratelimit_policy_changes_total counter
			`+want+"\n"), "ratelimit_limit_capacity", "ratelimit_policy_changes_total"), rule)
	}
	exposes(`ratelimit_limit_capacity{limit="api-1m",plan="",policy="api"} 60
		ratelimit_limit_capacity{limit="daily",plan="",policy="api"} 1000
		ratelimit_policy_changes_total{policy="api"} 0`, "from the start")

	require.NoError(t, limiter.SetPolicy(policy))
	policy.Limits = []core.Limit{core.PerMinute(60).WithBurst(100)}
	require.NoError(t, limiter.SetPolicy(policy))
	exposes(`ratelimit_limit_capacity{limit="api",plan="",policy="api"} 100
		ratelimit_policy_changes_total{policy="api"} 1`, "a limit that is removed has no Capacity, and what changes nothing is no change")

	policy.Plans = map[string][]core.Limit{"pro": {core.PerMinute(90)}}
	require.NoError(t, limiter.SetPolicy(policy))
	exposes(`ratelimit_limit_capacity{limit="api",plan="",policy="api"} 100
		ratelimit_limit_capacity{limit="api",plan="pro",policy="api"} 90
		ratelimit_policy_changes_total{policy="api"} 2`, "those of plans too")
	policy.Plans = nil
	require.NoError(t, limiter.SetPolicy(policy))

	for _, name := range []string{"b", "c", "d"} {
		l := core.Must(core.NewLimiter(core.NewMemoryStore(), core.Policy{Name: name, Limits: []core.Limit{core.PerMinute(1)}},
			core.WithPolicyObserver(metrics.ObservePolicy)))
		require.NoError(t, l.SetPolicy(core.Policy{Name: name, Limits: []core.Limit{core.PerMinute(2)}}))
	}
	exposes(`ratelimit_limit_capacity{limit="api",plan="",policy="api"} 100
		ratelimit_limit_capacity{limit="b",plan="",policy="b"} 2
		ratelimit_policy_changes_total{policy="api"} 3
		ratelimit_policy_changes_total{policy="b"} 1
		ratelimit_policy_changes_total{policy="(other)"} 2`, "the number of series is bounded")
}

// counted is a store that got answers of keys that can't be used, and follows
// exceptions.
type counted struct{}

func (counted) Stats() storestats.Stats {
	return storestats.Stats{Unreadable: 3, Exceptions: []storestats.Exceptions{{Policy: "api", Overrides: 4, Blocks: 5, Version: 1_772_452_800_123_456, Age: 1500 * time.Millisecond}}}
}

func TestExceptionsInForceAreShown(t *testing.T) {
	metrics := promlimit.New(promlimit.WithRedisStore("main", counted{}))
	require.NoError(t, testutil.CollectAndCompare(metrics, strings.NewReader(`
		# HELP ratelimit_exceptions Exceptions that operators have set and this process obeys, by kind: override or block.
		# TYPE ratelimit_exceptions gauge
		ratelimit_exceptions{kind="block",policy="api",store="main"} 5
		ratelimit_exceptions{kind="override",policy="api",store="main"} 4
		# HELP ratelimit_exceptions_age_seconds Seconds since the store asked Redis with success whether exceptions have changed.
		# TYPE ratelimit_exceptions_age_seconds gauge
		ratelimit_exceptions_age_seconds{policy="api",store="main"} 1.5
		# HELP ratelimit_exceptions_version Version of the exceptions that this process obeys: about when they last changed, in microseconds since 1970; 0: no exceptions.
		# TYPE ratelimit_exceptions_version gauge
		ratelimit_exceptions_version{policy="api",store="main"} 1.772452800123456e+15
		`), "ratelimit_exceptions", "ratelimit_exceptions_age_seconds", "ratelimit_exceptions_version"))
}

func TestKeysThatCantBeUsedAreCounted(t *testing.T) {
	metrics := promlimit.New(promlimit.WithRedisStore("main", counted{}))
	require.NoError(t, testutil.CollectAndCompare(metrics, strings.NewReader(`
		# HELP ratelimit_unreadable_total Answers of a store that the state of a key can't be used.
		# TYPE ratelimit_unreadable_total counter
		ratelimit_unreadable_total{store="main"} 3
		`), "ratelimit_unreadable_total"))
}
