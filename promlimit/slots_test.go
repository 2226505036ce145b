package promlimit_test

import (
	"context"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/tokenbucket-go/ratelimit/core"
	"github.com/tokenbucket-go/ratelimit/promlimit"
)

func TestSlotsInUseAreExposed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		metrics := promlimit.New()
		registry := prometheus.NewPedanticRegistry()
		require.NoError(t, registry.Register(metrics))
		limiter := core.Must(core.NewLimiter(core.NewMemoryStore(), core.Policy{Name: "exports", Limits: []core.Limit{core.InFlight(5)}}, core.WithObserver(metrics.Observe)))
		exposes := func(n int, rule string) {
			t.Helper()
			synctest.Wait()
			require.NoError(t, testutil.GatherAndCompare(registry, strings.NewReader(`
# HELP ratelimit_slots_in_use Slots that this process has taken and not released, and whose MaxHold is not over.
# TYPE ratelimit_slots_in_use gauge
ratelimit_slots_in_use{policy="exports"} `+strconv.Itoa(n)+"\n"), "ratelimit_slots_in_use"), rule)
		}
		first, err := limiter.AllowN(context.Background(), "ann", 2)
		require.NoError(t, err)
		_, err = limiter.Allow(context.Background(), "bob")
		require.NoError(t, err)
		exposes(3, "those of all keys")
		require.NoError(t, first.Release(context.Background()))
		exposes(1, "what is released is not in use")
		time.Sleep(2 * time.Minute)
		exposes(0, "nor what MaxHold has freed")
		assert.Equal(t, 1, testutil.CollectAndCount(metrics, "ratelimit_decisions_total"), "changes are no decisions")
		count, err := testutil.GatherAndCount(registry, "ratelimit_decision_duration_seconds")
		require.NoError(t, err)
		assert.Equal(t, 1, count)
		require.Equal(t, 2.0, counterOf(t, registry, "ratelimit_decisions_total"), "two were decided")
	})
}

// counterOf returns the sum of a counter's series.
func counterOf(t *testing.T, registry prometheus.Gatherer, name string) (sum float64) {
	t.Helper()
	families, err := registry.Gather()
	require.NoError(t, err)
	for _, f := range families {
		if f.GetName() == name {
			for _, m := range f.GetMetric() {
				sum += m.GetCounter().GetValue()
			}
		}
	}
	return sum
}

func TestSeriesOfSlotsAreBounded(t *testing.T) {
	c := promlimit.New(promlimit.WithMaxSeries(5))
	for i := range 20 {
		c.Observe(context.Background(), core.Observation{Policy: strconv.Itoa(i), Outcome: core.OutcomeSlots, Slots: -1})
	}
	assert.Equal(t, 6, testutil.CollectAndCount(c, "ratelimit_slots_in_use"), "5 policies and (other)")
}
