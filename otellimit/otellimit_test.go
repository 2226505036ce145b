package otellimit_test

import (
	"context"
	"net/http"
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/attribute"
	sdkmetric "go.opentelemetry.io/otel/sdk/metric"

	"github.com/tokenbucket-go/ratelimit/core"
	"github.com/tokenbucket-go/ratelimit/internal/limittest"
	"github.com/tokenbucket-go/ratelimit/otellimit"
)

func TestMetricsAndSpansRecordRequests(t *testing.T) {
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
			s := serve(t, core.NewMemoryStore(), p.policy)
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
			assert.Empty(t, span.Attributes, "the span of an allowed request gets no attributes")

			status, span = s.get(t, "ann")
			assert.Equal(t, p.status, status)
			require.Len(t, span.Events, 1)
			assert.ElementsMatch(t, attributes(p.denied), span.Events[0].Attributes)
			assert.ElementsMatch(t, attributes(p.denied), span.Attributes)

			series := func(name, outcome string) string {
				return name + "{ratelimit.limit=few,ratelimit.outcome=" + outcome + ",ratelimit.policy=" + p.policy.Name + ",ratelimit.source=store}"
			}
			assert.Equal(t, map[string]float64{
				series("ratelimit.decisions", "allowed"): 1, series("ratelimit.decisions", p.denied): 1,
				series("ratelimit.tokens", "allowed"): 1, series("ratelimit.tokens", p.denied): 1,
				"ratelimit.decision.duration{ratelimit.policy=" + p.policy.Name + ",ratelimit.source=store}": 2,
			}, s.collected())
		})
	}
}

func TestSeriesBeyondTheBoundAreCountedAsOther(t *testing.T) {
	telemetry, collected := measured(t, otellimit.WithMaxSeries(10))
	for i := range 100 {
		telemetry.Observe(t.Context(), core.Observation{Policy: "p" + strconv.Itoa(i), Limit: "l", Cost: 1, Capacity: 1})
	}
	values := collected()
	assert.Len(t, values, 33, "10 sets and (other), for each of three metrics")
	assert.InDelta(t, 90, values["ratelimit.decisions{ratelimit.limit=(other),ratelimit.outcome=allowed,ratelimit.policy=(other),ratelimit.source=store}"], 0)
}

func TestObserveWithoutAnSDKAllocatesNothing(t *testing.T) {
	telemetry, err := otellimit.New()
	require.NoError(t, err)
	o := core.Observation{Policy: "api", Limit: "l", Cost: 1, Latency: time.Millisecond}
	ctx := context.Background()
	telemetry.Observe(ctx, o)
	assert.Zero(t, testing.AllocsPerRun(100, func() { telemetry.Observe(ctx, o) }))
}

func TestDefaultProviderIsTheGlobalOne(t *testing.T) {
	before := otel.GetMeterProvider()
	t.Cleanup(func() { otel.SetMeterProvider(before) })
	reader := sdkmetric.NewManualReader()
	otel.SetMeterProvider(sdkmetric.NewMeterProvider(sdkmetric.WithReader(reader)))
	telemetry, err := otellimit.New(nil)
	require.NoError(t, err)
	telemetry.Observe(t.Context(), core.Observation{Policy: "api", Cost: 1})
	assert.Len(t, collect(t, reader), 3)
}

// A client may choose the cost, for example as a Content-Length.
func TestTokensOfARequestAreAtMostTheCapacity(t *testing.T) {
	telemetry, collected := measured(t)
	telemetry.Observe(t.Context(), core.Observation{Policy: "api", Cost: 21, Capacity: 20})
	assert.InDelta(t, 20, collected()["ratelimit.tokens{ratelimit.outcome=allowed,ratelimit.policy=api,ratelimit.source=store}"], 0)
}

func TestSlotsInUseAreMeasured(t *testing.T) {
	telemetry, collected := measured(t)
	limiter := core.Must(core.NewLimiter(core.NewMemoryStore(), core.Policy{Name: "exports", Limits: []core.Limit{core.InFlight(5)}}, core.WithObserver(telemetry.Observe)))
	first, err := limiter.AllowN(t.Context(), "ann", 2)
	require.NoError(t, err)
	limittest.Use(t, limiter, "bob", 3)
	const slots = "ratelimit.slots.in_use{ratelimit.policy=exports}"
	assert.InDelta(t, 5, collected()[slots], 0, "those of all keys")
	require.NoError(t, first.Release(t.Context()))
	require.NoError(t, first.Release(t.Context()))
	values := collected()
	assert.InDelta(t, 3, values[slots], 0, "what is released is not in use")
	for name := range values {
		assert.NotContains(t, name, "outcome=slots", "changes are no decisions")
	}
}

// Failed settlements and slots have metrics of their own, with a bounded number
// of series: they are no decisions, and have no tokens or durations.
func TestWhatIsNoDecisionHasBoundedSeries(t *testing.T) {
	telemetry, collected := measured(t, otellimit.WithMaxSeries(2))
	for i := range 5 {
		policy := strconv.Itoa(i)
		telemetry.Observe(t.Context(), core.Observation{Policy: policy, Outcome: core.OutcomeUnsettled, Err: core.ErrUnavailable})
		telemetry.Observe(t.Context(), core.Observation{Policy: policy, Outcome: core.OutcomeSlots, Slots: -1})
	}
	assert.Equal(t, map[string]float64{
		"ratelimit.unsettled{ratelimit.policy=0}":          1,
		"ratelimit.unsettled{ratelimit.policy=1}":          1,
		"ratelimit.unsettled{ratelimit.policy=(other)}":    3,
		"ratelimit.slots.in_use{ratelimit.policy=0}":       -1,
		"ratelimit.slots.in_use{ratelimit.policy=1}":       -1,
		"ratelimit.slots.in_use{ratelimit.policy=(other)}": -3,
	}, collected())
}
