package otellimit_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/otel/sdk/metric"
	"go.opentelemetry.io/otel/sdk/metric/metricdata"

	"github.com/tokenbucket-go/ratelimit/clientlimit"
	"github.com/tokenbucket-go/ratelimit/otellimit"
)

func TestClientsAreMeasured(t *testing.T) {
	reader := metric.NewManualReader()
	telemetry, err := otellimit.New(otellimit.WithMeterProvider(metric.NewMeterProvider(metric.WithReader(reader))))
	require.NoError(t, err)
	for _, e := range []clientlimit.Event{
		{Client: "github", Kind: clientlimit.Queued, Queued: 1}, {Client: "github", Kind: clientlimit.Queued, Queued: -1},
		{Client: "github", Kind: clientlimit.Sent, Wait: time.Second}, {Client: "github", Kind: clientlimit.Refused},
	} {
		telemetry.ObserveClient(t.Context(), e)
	}
	var all metricdata.ResourceMetrics
	require.NoError(t, reader.Collect(t.Context(), &all))
	sums := map[string]int64{}
	for _, m := range all.ScopeMetrics[0].Metrics {
		switch data := m.Data.(type) {
		case metricdata.Sum[int64]:
			for _, p := range data.DataPoints {
				sums[m.Name] += p.Value
			}
		case metricdata.Histogram[float64]:
			for _, p := range data.DataPoints {
				sums[m.Name] += int64(p.Sum)
			}
		}
	}
	require.Equal(t, map[string]int64{"ratelimit.client.requests": 2, "ratelimit.client.wait": 1, "ratelimit.client.waiting": 0}, sums)
}
