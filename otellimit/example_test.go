package otellimit_test

import (
	"context"
	"fmt"
	"log"

	"go.opentelemetry.io/otel/sdk/metric"
	"go.opentelemetry.io/otel/sdk/metric/metricdata"

	"github.com/tokenbucket-go/ratelimit/core"
	"github.com/tokenbucket-go/ratelimit/otellimit"
)

func Example() {
	ctx := context.Background()
	reader := metric.NewManualReader() // a service has an exporter here
	telemetry, err := otellimit.New(otellimit.WithMeterProvider(metric.NewMeterProvider(metric.WithReader(reader))))
	if err != nil {
		log.Fatal(err)
	}
	limiter := core.Must(core.NewLimiter(core.NewMemoryStore(), core.Policy{
		Name:   "api",
		Limits: []core.Limit{core.PerHour(2).WithName("hourly")},
	}, core.WithObserver(telemetry.Observe)))
	for range 2 {
		_, _ = limiter.Allow(ctx, "ann")
	}

	var all metricdata.ResourceMetrics
	if err := reader.Collect(ctx, &all); err != nil {
		log.Fatal(err)
	}
	for _, m := range all.ScopeMetrics[0].Metrics {
		if sum, ok := m.Data.(metricdata.Sum[int64]); ok {
			outcome, _ := sum.DataPoints[0].Attributes.Value("ratelimit.outcome")
			fmt.Println(m.Name, outcome.AsString(), sum.DataPoints[0].Value)
		}
	}
	// Output:
	// ratelimit.decisions allowed 2
	// ratelimit.tokens allowed 2
}
