package otellimit_test

import (
	"context"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/otel/attribute"
	sdkmetric "go.opentelemetry.io/otel/sdk/metric"
	"go.opentelemetry.io/otel/sdk/metric/metricdata"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"

	"github.com/tokenbucket-go/ratelimit/core"
	"github.com/tokenbucket-go/ratelimit/httplimit"
	"github.com/tokenbucket-go/ratelimit/otellimit"
)

// service is a real server. Every request has a span.
type service struct {
	*httptest.Server

	collected func() map[string]float64
	spans     *tracetest.InMemoryExporter
}

func serve(t *testing.T, store core.Store, policy core.Policy, options ...otellimit.Option) *service {
	t.Helper()
	s := &service{spans: tracetest.NewInMemoryExporter()}
	var telemetry *otellimit.Telemetry
	telemetry, s.collected = measured(t, options...)
	limiter, err := core.NewLimiter(store, policy, core.WithObserver(telemetry.Observe))
	require.NoError(t, err)

	tracer := sdktrace.NewTracerProvider(sdktrace.WithSyncer(s.spans)).Tracer("test")
	limited := httplimit.New(limiter, httplimit.ByHeader("X-User"))(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
	s.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		ctx, span := tracer.Start(r.Context(), "request")
		limited.ServeHTTP(w, r.WithContext(ctx))
		span.End()
	}))
	t.Cleanup(s.Close)
	return s
}

// get sends a request of a user. It returns the status and the span of the
// request, which has ended.
func (s *service) get(t *testing.T, user string) (int, tracetest.SpanStub) {
	t.Helper()
	s.spans.Reset()
	r, err := http.NewRequestWithContext(context.Background(), http.MethodGet, s.URL, nil)
	require.NoError(t, err)
	r.Header.Set("X-User", user)
	res, err := s.Client().Do(r)
	require.NoError(t, err)
	require.NoError(t, res.Body.Close())
	require.Eventually(t, func() bool { return len(s.spans.GetSpans()) == 1 }, time.Minute, time.Millisecond)
	return res.StatusCode, s.spans.GetSpans()[0]
}

// measured returns Telemetry with a meter of its own, and a function that
// collects what it measured.
func measured(t *testing.T, options ...otellimit.Option) (telemetry *otellimit.Telemetry, collected func() map[string]float64) {
	t.Helper()
	reader := sdkmetric.NewManualReader()
	telemetry, err := otellimit.New(append(options, otellimit.WithMeterProvider(sdkmetric.NewMeterProvider(sdkmetric.WithReader(reader))))...)
	require.NoError(t, err)
	return telemetry, func() map[string]float64 { return collect(t, reader) }
}

// collect returns the values of all metrics by name{attributes}. The value of a
// histogram is its count.
func collect(t *testing.T, reader *sdkmetric.ManualReader) map[string]float64 {
	t.Helper()
	var all metricdata.ResourceMetrics
	require.NoError(t, reader.Collect(context.Background(), &all))
	values := map[string]float64{}
	for _, scope := range all.ScopeMetrics {
		assert.Equal(t, "github.com/tokenbucket-go/ratelimit/otellimit", scope.Scope.Name)
		for _, m := range scope.Metrics {
			assert.NotEmpty(t, m.Description, m.Name)
			switch data := m.Data.(type) {
			case metricdata.Sum[int64]:
				assert.Equal(t, m.Name != "ratelimit.slots.in_use", data.IsMonotonic, m.Name)
				points(values, m.Name, data.DataPoints)
			case metricdata.Sum[float64]:
				points(values, m.Name, data.DataPoints)
			case metricdata.Gauge[int64]:
				points(values, m.Name, data.DataPoints)
			case metricdata.Gauge[float64]:
				points(values, m.Name, data.DataPoints)
			case metricdata.Histogram[float64]:
				for _, p := range data.DataPoints {
					values[at(m.Name, p.Attributes)] = float64(p.Count)
				}
			default:
				t.Errorf("%s is a %T", m.Name, data)
			}
		}
	}
	return values
}

func at(name string, set attribute.Set) string {
	return name + "{" + set.Encoded(attribute.DefaultEncoder()) + "}"
}

func points[N int64 | float64](values map[string]float64, name string, list []metricdata.DataPoint[N]) {
	for _, p := range list {
		values[at(name, p.Attributes)] = float64(p.Value)
	}
}
