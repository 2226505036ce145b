package otellimit_test

import (
	"context"
	"strconv"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	sdkmetric "go.opentelemetry.io/otel/sdk/metric"

	"github.com/tokenbucket-go/ratelimit/core"
	"github.com/tokenbucket-go/ratelimit/otellimit"
)

func TestSlotsInUseAreMeasured(t *testing.T) {
	reader := sdkmetric.NewManualReader()
	telemetry, err := otellimit.New(otellimit.WithMaxSeries(2), otellimit.WithMeterProvider(sdkmetric.NewMeterProvider(sdkmetric.WithReader(reader))))
	require.NoError(t, err)
	limiter := core.Must(core.NewLimiter(core.NewMemoryStore(), core.Policy{Name: "exports", Limits: []core.Limit{core.InFlight(5)}}, core.WithObserver(telemetry.Observe)))
	ctx := context.Background()
	first, err := limiter.AllowN(ctx, "ann", 2)
	require.NoError(t, err)
	_, err = limiter.AllowN(ctx, "bob", 3)
	require.NoError(t, err)
	const slots = "ratelimit.slots.in_use{ratelimit.policy=exports}"
	assert.InDelta(t, 5, collect(t, reader)[slots], 0, "those of all keys")
	require.NoError(t, first.Release(ctx))
	require.NoError(t, first.Release(ctx))
	assert.InDelta(t, 3, collect(t, reader)[slots], 0, "what is released is not in use")

	for i := range 4 {
		telemetry.Observe(ctx, core.Observation{Policy: strconv.Itoa(i), Outcome: core.OutcomeSlots, Slots: -1})
	}
	got := collect(t, reader)
	assert.InDelta(t, -3, got["ratelimit.slots.in_use{ratelimit.policy=(other)}"], 0, "the number of series is bounded")
	for name, value := range got {
		assert.NotContains(t, name, "outcome=slots", "changes are no decisions: %v", value)
	}
}

func TestFailedSettlementsHaveAMetricOfTheirOwn(t *testing.T) {
	reader := sdkmetric.NewManualReader()
	telemetry, err := otellimit.New(otellimit.WithMaxSeries(2), otellimit.WithMeterProvider(sdkmetric.NewMeterProvider(sdkmetric.WithReader(reader))))
	require.NoError(t, err)
	for i := range 5 {
		telemetry.Observe(context.Background(), core.Observation{Policy: strconv.Itoa(i), Outcome: core.OutcomeUnsettled, Err: core.ErrUnavailable})
	}
	assert.Equal(t, map[string]float64{
		"ratelimit.unsettled{ratelimit.policy=0}":       1,
		"ratelimit.unsettled{ratelimit.policy=1}":       1,
		"ratelimit.unsettled{ratelimit.policy=(other)}": 3,
	}, collect(t, reader), "they are no decisions, and have no tokens or durations")
}
