package promlimit_test

import (
	"context"
	"math"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/tokenbucket-go/ratelimit/core"
	"github.com/tokenbucket-go/ratelimit/httplimit"
	"github.com/tokenbucket-go/ratelimit/promlimit"
)

// A client can send the largest Content-Length. The counter adds at most the
// capacity, so it stays exact.
func TestTokensOfARequestAreAtMostTheCapacity(t *testing.T) {
	metrics := promlimit.New()
	limiter := core.Must(core.NewLimiter(core.NewMemoryStore(), core.Policy{
		Name: "upload", Limits: []core.Limit{core.PerDay(100), core.PerHour(20)},
	}, core.WithObserver(metrics.Observe)))
	handler := httplimit.New(limiter, httplimit.ByIP(), httplimit.WithCost(httplimit.CostByContentLength(1)))(http.NotFoundHandler())
	for _, length := range []int64{math.MaxInt64, 21, math.MaxInt64} {
		w, r := httptest.NewRecorder(), httptest.NewRequest(http.MethodPost, "/", nil)
		r.ContentLength = length
		handler.ServeHTTP(w, r)
		assert.Equal(t, http.StatusTooManyRequests, w.Code)
	}
	registry := prometheus.NewPedanticRegistry()
	require.NoError(t, registry.Register(metrics))
	families, err := registry.Gather()
	require.NoError(t, err)
	for _, f := range families {
		if f.GetName() == "ratelimit_tokens_total" {
			require.Len(t, f.GetMetric(), 1)
			assert.InDelta(t, 60, f.GetMetric()[0].GetCounter().GetValue(), 0, "three requests, each counted as at most 20")
		}
	}
	n, err := testutil.GatherAndCount(registry, "ratelimit_tokens_total")
	require.NoError(t, err)
	assert.Equal(t, 1, n)
}

func TestFailedSettlementsHaveAMetricOfTheirOwn(t *testing.T) {
	c := promlimit.New()
	for range 3 {
		c.Observe(context.Background(), core.Observation{Policy: "api", Outcome: core.OutcomeUnsettled, Err: core.ErrUnavailable})
	}
	registry := prometheus.NewPedanticRegistry()
	require.NoError(t, registry.Register(c))
	families, err := registry.Gather()
	require.NoError(t, err)
	require.Len(t, families, 1, "they are no decisions, and have no tokens or durations")
	require.NoError(t, testutil.GatherAndCompare(registry, strings.NewReader(`
# HELP ratelimit_unsettled_total Settlements and debits that failed.
# TYPE ratelimit_unsettled_total counter
ratelimit_unsettled_total{policy="api"} 3
`)))
}

func TestSeriesOfFailedSettlementsAreBounded(t *testing.T) {
	c := promlimit.New(promlimit.WithMaxSeries(5))
	for i := range 20 {
		c.Observe(context.Background(), core.Observation{Policy: strconv.Itoa(i), Outcome: core.OutcomeUnsettled})
	}
	assert.Equal(t, 6, testutil.CollectAndCount(c, "ratelimit_unsettled_total"), "5 policies and (other)")
}
