package promlimit_test

import (
	"context"
	"strconv"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/tokenbucket-go/ratelimit/core"
	"github.com/tokenbucket-go/ratelimit/promlimit"
)

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
