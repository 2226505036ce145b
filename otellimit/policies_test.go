package otellimit_test

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	sdkmetric "go.opentelemetry.io/otel/sdk/metric"

	"github.com/tokenbucket-go/ratelimit/core"
	"github.com/tokenbucket-go/ratelimit/core/storestats"
	"github.com/tokenbucket-go/ratelimit/otellimit"
)

// counted is a store that got answers of keys that can't be used.
type counted struct{}

func (counted) Stats() storestats.Stats { return storestats.Stats{Unreadable: 3} }

func TestLimitsInForceAndKeysThatCantBeUsedAreMeasured(t *testing.T) {
	reader := sdkmetric.NewManualReader()
	telemetry, err := otellimit.New(otellimit.WithMeterProvider(sdkmetric.NewMeterProvider(sdkmetric.WithReader(reader))), otellimit.WithRedisStore("main", counted{}))
	require.NoError(t, err)
	limiter := core.Must(core.NewLimiter(core.NewMemoryStore(), core.Policy{Name: "api", Limits: []core.Limit{core.PerMinute(60)}},
		core.WithPolicyObserver(telemetry.ObservePolicy)))
	capacity := func() float64 {
		return collect(t, reader)["ratelimit.limit.capacity{ratelimit.limit=api,ratelimit.policy=api}"]
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
