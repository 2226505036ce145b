package otellimit_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	sdkmetric "go.opentelemetry.io/otel/sdk/metric"

	"github.com/tokenbucket-go/ratelimit/core"
	"github.com/tokenbucket-go/ratelimit/core/storestats"
	"github.com/tokenbucket-go/ratelimit/otellimit"
)

// busy is a store that reports another number for everything.
type busy struct{}

func (busy) Stats() storestats.Stats {
	return storestats.Stats{
		Breaker: storestats.BreakerOpen, Opened: 3, Away: 4500 * time.Millisecond, Calls: 5, Decisions: 6, Denied: 7, Leased: 8, Unreadable: 9,
		Exceptions: []storestats.Exceptions{{Policy: "api", Overrides: 10, Blocks: 11, Version: 1_772_452_800_123_456, Age: 1500 * time.Millisecond}},
	}
}

func TestStoresAreMeasured(t *testing.T) {
	_, collected := measured(t, otellimit.WithRedisStore("main", busy{}))
	const main, api = "{ratelimit.store=main}", "{ratelimit.policy=api,ratelimit.store=main}"
	assert.Equal(t, map[string]float64{
		"ratelimit.breaker.state" + main:  2,
		"ratelimit.breaker.opened" + main: 3, "ratelimit.fallback" + main: 4.5,
		"ratelimit.redis.calls" + main: 5, "ratelimit.redis.decisions" + main: 6, "ratelimit.deny_cache.hits" + main: 7,
		"ratelimit.leased.decisions" + main: 8, "ratelimit.unreadable" + main: 9,
		"ratelimit.exceptions{ratelimit.kind=override,ratelimit.policy=api,ratelimit.store=main}": 10,
		"ratelimit.exceptions{ratelimit.kind=block,ratelimit.policy=api,ratelimit.store=main}":    11,
		"ratelimit.exceptions.version" + api:                                                      1_772_452_800_123_456,
		"ratelimit.exceptions.age" + api:                                                          1.5,
	}, collected())
}

// Two Telemetry values that watch a store under one name would report it twice,
// so the first one is closed.
func TestCloseStopsReadingStores(t *testing.T) {
	reader := sdkmetric.NewManualReader()
	provider := otellimit.WithMeterProvider(sdkmetric.NewMeterProvider(sdkmetric.WithReader(reader)))
	first, err := otellimit.New(provider, otellimit.WithRedisStore("main", busy{}))
	require.NoError(t, err)
	const opened = "ratelimit.breaker.opened{ratelimit.store=main}"
	assert.InDelta(t, 3, collect(t, reader)[opened], 0)
	require.NoError(t, first.Close())
	assert.NotContains(t, collect(t, reader), opened)
	require.NoError(t, first.Close(), "a second Close does nothing")

	second, err := otellimit.New(provider, otellimit.WithRedisStore("main", busy{}))
	require.NoError(t, err)
	assert.InDelta(t, 3, collect(t, reader)[opened], 0, "counted once")
	first.Observe(t.Context(), core.Observation{Policy: "api"})
	second.Observe(t.Context(), core.Observation{Policy: "api"})
	assert.InDelta(t, 2, collect(t, reader)["ratelimit.decisions{ratelimit.outcome=allowed,ratelimit.policy=api,ratelimit.source=store}"], 0,
		"a closed Telemetry still measures decisions")

	none, err := otellimit.New(provider)
	require.NoError(t, err)
	assert.NoError(t, none.Close(), "Close works without stores")
}

func TestLimitsInForceAreMeasured(t *testing.T) {
	telemetry, collected := measured(t)
	limiter := core.Must(core.NewLimiter(core.NewMemoryStore(), core.Policy{Name: "api", Limits: []core.Limit{core.PerMinute(60)}},
		core.WithPolicyObserver(telemetry.ObservePolicy)))
	const capacity, changes = "ratelimit.limit.capacity{ratelimit.limit=api,ratelimit.plan=,ratelimit.policy=api}", "ratelimit.policy.changes{ratelimit.policy=api}"
	assert.Equal(t, map[string]float64{capacity: 60, changes: 0}, collected(), "from the start")
	require.NoError(t, limiter.SetPolicy(core.Policy{Name: "api", Limits: []core.Limit{core.PerMinute(100)}}))
	assert.Equal(t, map[string]float64{capacity: 100, changes: 1}, collected(), "what is in force")
	require.NoError(t, telemetry.Close())
	assert.Empty(t, collected(), "a closed Telemetry reports no limits")
}
