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
