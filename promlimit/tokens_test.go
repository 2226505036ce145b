package promlimit_test

import (
	"math"
	"net/http"
	"net/http/httptest"
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
