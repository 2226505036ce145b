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

// counted is a store that got answers of keys that can't be used, and follows
// exceptions.
type counted struct{}

func (counted) Stats() storestats.Stats {
	return storestats.Stats{Unreadable: 3, Exceptions: []storestats.Exceptions{{Policy: "api", Overrides: 4, Blocks: 5, Version: 1_772_452_800_123_456, Age: 1500 * time.Millisecond}}}
}

func TestExceptionsInForceAreMeasured(t *testing.T) {
	reader := sdkmetric.NewManualReader()
	_, err := otellimit.New(otellimit.WithMeterProvider(sdkmetric.NewMeterProvider(sdkmetric.WithReader(reader))), otellimit.WithRedisStore("main", counted{}))
	require.NoError(t, err)
	values := collect(t, reader)
	assert.InDelta(t, 4, values["ratelimit.exceptions{ratelimit.kind=override,ratelimit.policy=api,ratelimit.store=main}"], 0)
	assert.InDelta(t, 5, values["ratelimit.exceptions{ratelimit.kind=block,ratelimit.policy=api,ratelimit.store=main}"], 0)
	assert.InDelta(t, 1_772_452_800_123_456, values["ratelimit.exceptions.version{ratelimit.policy=api,ratelimit.store=main}"], 0)
	assert.InDelta(t, 1.5, values["ratelimit.exceptions.age{ratelimit.policy=api,ratelimit.store=main}"], 0)
}

func TestLimitsInForceAndKeysThatCantBeUsedAreMeasured(t *testing.T) {
	reader := sdkmetric.NewManualReader()
	telemetry, err := otellimit.New(otellimit.WithMeterProvider(sdkmetric.NewMeterProvider(sdkmetric.WithReader(reader))), otellimit.WithRedisStore("main", counted{}))
	require.NoError(t, err)
	limiter := core.Must(core.NewLimiter(core.NewMemoryStore(), core.Policy{Name: "api", Limits: []core.Limit{core.PerMinute(60)}},
		core.WithPolicyObserver(telemetry.ObservePolicy)))
	capacity := func() float64 {
		return collect(t, reader)["ratelimit.limit.capacity{ratelimit.limit=api,ratelimit.plan=,ratelimit.policy=api}"]
	}
	changes := func() float64 { return collect(t, reader)["ratelimit.policy.changes{ratelimit.policy=api}"] }
	assert.InDelta(t, 60, capacity(), 0, "from the start")
	assert.Zero(t, changes())
	require.NoError(t, limiter.SetPolicy(core.Policy{Name: "api", Limits: []core.Limit{core.PerMinute(100)}}))
	assert.InDelta(t, 100, capacity(), 0, "what is in force")
	assert.InDelta(t, 1, changes(), 0)
	assert.InDelta(t, 3, collect(t, reader)["ratelimit.unreadable{ratelimit.store=main}"], 0)
	require.NoError(t, telemetry.Close())
	assert.Zero(t, capacity(), "a closed Telemetry reports no limits")
}
