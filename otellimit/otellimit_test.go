package otellimit_test

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"strconv"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"
	"go.opentelemetry.io/otel/metric/noop"
	sdkmetric "go.opentelemetry.io/otel/sdk/metric"
	"go.opentelemetry.io/otel/sdk/metric/metricdata"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"

	"github.com/tokenbucket-go/ratelimit/core"
	"github.com/tokenbucket-go/ratelimit/httplimit"
	"github.com/tokenbucket-go/ratelimit/internal/redistest"
	"github.com/tokenbucket-go/ratelimit/otellimit"
)

// service is a real server whose every request has a span.
type service struct {
	*httptest.Server

	metrics *sdkmetric.ManualReader
	spans   *tracetest.InMemoryExporter
}

func serve(t *testing.T, store core.Store, policy core.Policy, limiterOptions []core.LimiterOption, options ...otellimit.Option) *service {
	t.Helper()
	s := &service{metrics: sdkmetric.NewManualReader(), spans: tracetest.NewInMemoryExporter()}
	meters := sdkmetric.NewMeterProvider(sdkmetric.WithReader(s.metrics))
	telemetry, err := otellimit.New(append(options, otellimit.WithMeterProvider(meters))...)
	require.NoError(t, err)
	limiter, err := core.NewLimiter(store, policy, append(limiterOptions, core.WithObserver(telemetry.Observe))...)
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

// get sends a request of a user and returns the status and, once it has ended, the request's span.
func (s *service) get(t *testing.T, user string) (int, tracetest.SpanStub) {
	t.Helper()
	s.spans.Reset()
	r, err := http.NewRequestWithContext(context.Background(), http.MethodGet, s.URL, nil)
	require.NoError(t, err)
	r.Header.Set("X-User", user)
	res, err := s.Client().Do(r)
	require.NoError(t, err)
	require.NoError(t, res.Body.Close())
	require.Eventually(t, func() bool { return len(s.spans.GetSpans()) == 1 }, 10*time.Second, time.Millisecond)
	return res.StatusCode, s.spans.GetSpans()[0]
}

// collect reads all metrics as name{attributes} and value; of histograms, the count.
func collect(t *testing.T, reader *sdkmetric.ManualReader) map[string]float64 {
	t.Helper()
	var all metricdata.ResourceMetrics
	require.NoError(t, reader.Collect(context.Background(), &all))
	values := map[string]float64{}
	at := func(name string, set attribute.Set) string {
		return name + "{" + set.Encoded(attribute.DefaultEncoder()) + "}"
	}
	for _, scope := range all.ScopeMetrics {
		assert.Equal(t, "github.com/tokenbucket-go/ratelimit/otellimit", scope.Scope.Name)
		for _, m := range scope.Metrics {
			assert.NotEmpty(t, m.Description, m.Name)
			switch data := m.Data.(type) {
			case metricdata.Sum[int64]:
				assert.True(t, data.IsMonotonic, m.Name)
				for _, p := range data.DataPoints {
					values[at(m.Name, p.Attributes)] = float64(p.Value)
				}
			case metricdata.Sum[float64]:
				for _, p := range data.DataPoints {
					values[at(m.Name, p.Attributes)] = p.Value
				}
			case metricdata.Gauge[int64]:
				for _, p := range data.DataPoints {
					values[at(m.Name, p.Attributes)] = float64(p.Value)
				}
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

func TestMetricsAndSpansTellOfRequests(t *testing.T) {
	for _, p := range []struct {
		policy core.Policy
		denied string
		status int
	}{
		{core.Policy{Name: "api"}, "denied", http.StatusTooManyRequests},
		{core.Policy{Name: "trial", Shadow: true}, "shadow-denied", http.StatusOK},
	} {
		t.Run(p.policy.Name, func(t *testing.T) {
			p.policy.Limits = []core.Limit{core.PerDay(1).WithName("few"), core.PerDay(100).WithName("many")}
			s := serve(t, core.NewMemoryStore(), p.policy, nil)
			attributes := func(outcome string) []attribute.KeyValue {
				return []attribute.KeyValue{
					attribute.String("ratelimit.policy", p.policy.Name), attribute.String("ratelimit.limit", "few"), attribute.String("ratelimit.outcome", outcome),
					attribute.String("ratelimit.source", "store"), attribute.Int64("ratelimit.cost", 1),
				}
			}
			status, span := s.get(t, "ann")
			assert.Equal(t, http.StatusOK, status)
			require.Len(t, span.Events, 1)
			assert.Equal(t, "ratelimit.decision", span.Events[0].Name)
			assert.ElementsMatch(t, attributes("allowed"), span.Events[0].Attributes)
			assert.Empty(t, span.Attributes, "a span of a request that was plainly allowed is left alone")

			status, span = s.get(t, "ann")
			assert.Equal(t, p.status, status)
			require.Len(t, span.Events, 1)
			assert.ElementsMatch(t, attributes(p.denied), span.Events[0].Attributes)
			assert.ElementsMatch(t, attributes(p.denied), span.Attributes)

			series := func(name, outcome string) string {
				return name + "{ratelimit.limit=few,ratelimit.outcome=" + outcome + ",ratelimit.policy=" + p.policy.Name + ",ratelimit.source=store}"
			}
			assert.Equal(t, map[string]float64{
				series("ratelimit.decisions", "allowed"): 1,
				series("ratelimit.decisions", p.denied):  1,
				series("ratelimit.tokens", "allowed"):    1,
				series("ratelimit.tokens", p.denied):     1,

				"ratelimit.decision.duration{ratelimit.policy=" + p.policy.Name + ",ratelimit.source=store}": 2,
			}, collect(t, s.metrics))
		})
	}
}

func TestKeysAreOnSpansIfAskedFor(t *testing.T) {
	s := serve(t, core.NewMemoryStore(), core.Policy{Name: "api", Limits: []core.Limit{core.PerDay(1)}}, []core.LimiterOption{core.WithObservedKeys()})
	_, span := s.get(t, "ann")
	require.Len(t, span.Events, 1)
	keys := 0
	for _, a := range span.Events[0].Attributes {
		if a.Key == "ratelimit.key" {
			keys++
			assert.Contains(t, a.Value.AsString(), "ann")
		}
	}
	assert.Equal(t, 1, keys)
	for series := range collect(t, s.metrics) {
		assert.NotContains(t, series, "ann", "keys are in no metric")
	}
}

// TestMetricsTellOfAnOutage kills the store's server and starts it again.
func TestMetricsTellOfAnOutage(t *testing.T) {
	server := redistest.Start(t)
	client := redis.NewClient(&redis.Options{Addr: server.Addr, MaxRetries: -1, DialerRetries: 1})
	t.Cleanup(func() { _ = client.Close() })
	store := core.NewRedisStore(client, core.WithTimeout(2*time.Second), core.WithBreaker(1, time.Millisecond))
	s := serve(t, store, core.Policy{Name: "api", Limits: []core.Limit{core.PerDay(1_000_000)}}, nil, otellimit.WithRedisStore("main", store))
	value := func(name string) float64 {
		v, ok := collect(t, s.metrics)[name+"{ratelimit.store=main}"]
		require.True(t, ok, name)
		return v
	}
	_, _ = s.get(t, "ann")
	assert.Zero(t, value("ratelimit.breaker.state"))
	assert.Zero(t, value("ratelimit.breaker.opened"))
	assert.Zero(t, value("ratelimit.fallback"))
	assert.Positive(t, value("ratelimit.redis.calls"))
	assert.InDelta(t, value("ratelimit.redis.calls"), value("ratelimit.redis.decisions"), 0)
	assert.Zero(t, value("ratelimit.deny_cache.hits"))
	assert.Zero(t, value("ratelimit.leased.decisions"))

	server.Kill()
	status, span := s.get(t, "ann")
	assert.Equal(t, http.StatusOK, status, "the process decides alone")
	require.Len(t, span.Events, 1)
	assert.Contains(t, span.Events[0].Attributes, attribute.String("ratelimit.source", "fallback"))
	assert.Contains(t, span.Events[0].Attributes, attribute.String("error.type", "unavailable"))
	assert.Positive(t, value("ratelimit.breaker.state"))
	assert.InDelta(t, 1, value("ratelimit.breaker.opened"), 0)
	assert.Positive(t, value("ratelimit.fallback"))

	server.Restart(t)
	require.Eventually(t, func() bool {
		_, _ = s.get(t, "ann")
		return value("ratelimit.breaker.state") == 0
	}, 20*time.Second, time.Millisecond, "the breaker closes when the server is back")
	assert.InDelta(t, value("ratelimit.fallback"), value("ratelimit.fallback"), 0, "no more time is counted")
}

func TestErrorTypes(t *testing.T) {
	telemetry, err := otellimit.New(otellimit.WithMeterProvider(noop.NewMeterProvider()))
	require.NoError(t, err)
	exporter := tracetest.NewInMemoryExporter()
	tracer := sdktrace.NewTracerProvider(sdktrace.WithSyncer(exporter)).Tracer("test")
	for want, cause := range map[string]error{
		"breaker_open": errors.Join(core.ErrBreakerOpen, context.DeadlineExceeded),
		"timeout":      context.DeadlineExceeded,
		"canceled":     context.Canceled,
		"unavailable":  errors.Join(core.ErrUnavailable, errors.New("dial tcp 10.1.2.3: connection refused")),
	} {
		ctx, span := tracer.Start(context.Background(), "request")
		telemetry.Observe(ctx, core.Observation{Policy: "api", Outcome: core.OutcomeError, Cost: 1, Err: cause})
		span.End()
		spans := exporter.GetSpans()
		require.Len(t, spans, 1)
		exporter.Reset()
		assert.Contains(t, spans[0].Attributes, attribute.String("error.type", want))
		assert.NotContains(t, attributesText(spans[0].Attributes), "10.1.2.3")
		assert.NotContains(t, attributesText(spans[0].Attributes), "ratelimit.limit", "nothing is known of any")
	}
}

func attributesText(list []attribute.KeyValue) string {
	set := attribute.NewSet(list...)
	return set.Encoded(attribute.DefaultEncoder())
}

func TestSeriesAreBounded(t *testing.T) {
	reader := sdkmetric.NewManualReader()
	telemetry, err := otellimit.New(otellimit.WithMaxSeries(10), otellimit.WithMeterProvider(sdkmetric.NewMeterProvider(sdkmetric.WithReader(reader))))
	require.NoError(t, err)
	for i := range 100 {
		telemetry.Observe(context.Background(), core.Observation{Policy: "p" + strconv.Itoa(i), Limit: "l", Cost: 1})
	}
	values := collect(t, reader)
	assert.Len(t, values, 33, "10 and the others, of three metrics")
	assert.InDelta(t, 90, values["ratelimit.decisions{ratelimit.limit=(other),ratelimit.outcome=allowed,ratelimit.policy=(other),ratelimit.source=store}"], 0)
}

// TestUnwatchedCostsLittle: without an SDK nothing is allocated.
func TestUnwatchedCostsLittle(t *testing.T) {
	telemetry, err := otellimit.New()
	require.NoError(t, err)
	o := core.Observation{Policy: "api", Limit: "l", Cost: 1, Latency: time.Millisecond}
	ctx := context.Background()
	telemetry.Observe(ctx, o)
	assert.Zero(t, testing.AllocsPerRun(100, func() { telemetry.Observe(ctx, o) }))
}

func TestTheGlobalProviderIsTheDefault(t *testing.T) {
	before := otel.GetMeterProvider()
	t.Cleanup(func() { otel.SetMeterProvider(before) })
	reader := sdkmetric.NewManualReader()
	otel.SetMeterProvider(sdkmetric.NewMeterProvider(sdkmetric.WithReader(reader)))
	telemetry, err := otellimit.New(nil)
	require.NoError(t, err)
	telemetry.Observe(context.Background(), core.Observation{Policy: "api", Cost: 1})
	assert.Len(t, collect(t, reader), 3)
}

func TestMistakesAreTold(t *testing.T) {
	client := redis.NewClient(&redis.Options{Addr: "127.0.0.1:1"})
	t.Cleanup(func() { _ = client.Close() })
	store := core.NewRedisStore(client)
	_, err := otellimit.New(otellimit.WithMeterProvider(nil), otellimit.WithMaxSeries(0), otellimit.WithRedisStore("a", nil),
		otellimit.WithRedisStore("main", store), otellimit.WithRedisStore("main", store))
	for _, want := range []string{
		"WithMeterProvider: must be a MeterProvider", "WithMaxSeries: 0: must be at least 1", `WithRedisStore("a"): must be a store`,
		`WithRedisStore("main"): two stores must not have the same name`,
	} {
		assert.ErrorContains(t, err, "otellimit: "+want)
	}

	for _, refused := range []string{"ratelimit.decisions", "ratelimit.decision.duration", "ratelimit.redis.calls", "ratelimit.breaker.state", "ratelimit.fallback", "callback"} {
		_, err = otellimit.New(otellimit.WithMeterProvider(refusing{name: refused}), otellimit.WithRedisStore("main", store))
		assert.ErrorIs(t, err, errRefused, refused)
		assert.ErrorContains(t, err, "otellimit: ")
	}
}

var errRefused = errors.New("refused")

// refusing makes all instruments but one.
type refusing struct {
	noop.MeterProvider

	name string
}

func (r refusing) Meter(string, ...metric.MeterOption) metric.Meter {
	return refusingMeter{name: r.name}
}

type refusingMeter struct {
	noop.Meter

	name string
}

func (m refusingMeter) err(name string) error {
	if name == m.name {
		return errRefused
	}
	return nil
}

func (m refusingMeter) Int64Counter(name string, _ ...metric.Int64CounterOption) (metric.Int64Counter, error) {
	return noop.Int64Counter{}, m.err(name)
}

func (m refusingMeter) Float64Histogram(name string, _ ...metric.Float64HistogramOption) (metric.Float64Histogram, error) {
	return noop.Float64Histogram{}, m.err(name)
}

func (m refusingMeter) Int64ObservableCounter(name string, _ ...metric.Int64ObservableCounterOption) (metric.Int64ObservableCounter, error) {
	return noop.Int64ObservableCounter{}, m.err(name)
}

func (m refusingMeter) Int64ObservableGauge(name string, _ ...metric.Int64ObservableGaugeOption) (metric.Int64ObservableGauge, error) {
	return noop.Int64ObservableGauge{}, m.err(name)
}

func (m refusingMeter) Float64ObservableCounter(name string, _ ...metric.Float64ObservableCounterOption) (metric.Float64ObservableCounter, error) {
	return noop.Float64ObservableCounter{}, m.err(name)
}

func (m refusingMeter) RegisterCallback(metric.Callback, ...metric.Observable) (metric.Registration, error) {
	return noop.Registration{}, m.err("callback")
}
