package promlimit_test

import (
	"context"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/tokenbucket-go/ratelimit/core"
	"github.com/tokenbucket-go/ratelimit/promlimit"
)

func TestDurationIsAClassicAndANativeHistogram(t *testing.T) {
	c := promlimit.New(promlimit.WithBuckets(.001, .01))
	registry := prometheus.NewPedanticRegistry()
	require.NoError(t, registry.Register(c))
	for _, d := range []time.Duration{0, time.Microsecond, 5 * time.Millisecond, time.Second} {
		c.Observe(context.Background(), core.Observation{Policy: "api", Cost: 1, Latency: d})
	}
	families, err := registry.Gather()
	require.NoError(t, err)
	for _, f := range families {
		if f.GetName() != "ratelimit_decision_duration_seconds" {
			continue
		}
		h := f.GetMetric()[0].GetHistogram()
		assert.Equal(t, uint64(4), h.GetSampleCount())
		assert.Equal(t, int32(3), h.GetSchema(), "a bucket is at most 1.1 times as wide as the one before")
		assert.NotEmpty(t, h.GetPositiveSpan())
		require.Len(t, h.GetBucket(), 2)
		assert.Equal(t, uint64(2), h.GetBucket()[0].GetCumulativeCount())
		assert.Equal(t, uint64(3), h.GetBucket()[1].GetCumulativeCount())
		return
	}
	t.Fatal("the histogram is missing")
}

func TestDurationsCarryExemplars(t *testing.T) {
	type traceKey struct{}
	c := promlimit.New(promlimit.WithExemplars(func(ctx context.Context) prometheus.Labels {
		if id, ok := ctx.Value(traceKey{}).(string); ok {
			return prometheus.Labels{"trace_id": id}
		}
		return nil
	}))
	registry := prometheus.NewPedanticRegistry()
	require.NoError(t, registry.Register(c))
	o := core.Observation{Policy: "api", Cost: 1, Latency: 2 * time.Millisecond}
	c.Observe(context.Background(), o)
	c.Observe(context.WithValue(context.Background(), traceKey{}, "4bf92f35"), o)
	w, r := httptest.NewRecorder(), httptest.NewRequest(http.MethodGet, "/metrics", nil)
	r.Header.Set("Accept", "application/openmetrics-text")
	promhttp.HandlerFor(registry, promhttp.HandlerOpts{EnableOpenMetrics: true}).ServeHTTP(w, r)
	assert.Equal(t, 1, strings.Count(w.Body.String(), `# {trace_id="4bf92f35"} 0.002`))
}

// Client_golang panics on some labels, and a client may have sent their values.
func TestInvalidExemplarsAreOmitted(t *testing.T) {
	for rule, labels := range map[string]prometheus.Labels{
		"none":                      {},
		"no name":                   {"": "x"},
		"a reserved name":           {"__trace": "x"},
		"one invalid of two":        {"trace_id": "x", "__name__": "y"},
		"a name that is not UTF-8":  {"\xff": "x"},
		"a value that is not UTF-8": {"trace_id": "\xff"},
		"too long":                  {"trace_id": strings.Repeat("x", prometheus.ExemplarMaxRunes)},
	} {
		c := promlimit.New(promlimit.WithExemplars(func(context.Context) prometheus.Labels { return labels }))
		registry := prometheus.NewPedanticRegistry()
		require.NoError(t, registry.Register(c))
		require.NotPanics(t, func() { c.Observe(context.Background(), core.Observation{Policy: "api"}) }, rule)
		families, err := registry.Gather()
		require.NoError(t, err, rule)
		for _, f := range families {
			if f.GetName() != "ratelimit_decision_duration_seconds" {
				continue
			}
			h := f.GetMetric()[0].GetHistogram()
			assert.Equal(t, uint64(1), h.GetSampleCount(), rule)
			assert.NotContains(t, h.String(), "exemplar", rule) // of the native histogram
			for _, b := range h.GetBucket() {
				assert.Nil(t, b.GetExemplar(), rule)
			}
		}
	}
}
