package otellimit_test

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric/noop"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"

	"github.com/tokenbucket-go/ratelimit/core"
	"github.com/tokenbucket-go/ratelimit/otellimit"
)

func TestSpansHaveKeysOnlyWithKeys(t *testing.T) {
	for want, options := range [][]otellimit.Option{nil, {otellimit.WithKeys()}} {
		s := serve(t, core.NewMemoryStore(), core.Policy{Name: "api", Limits: []core.Limit{core.PerDay(1)}}, options...)
		_, span := s.get(t, "ann")
		require.Len(t, span.Events, 1)
		keys := 0
		for _, a := range span.Events[0].Attributes {
			if strings.Contains(a.Value.String(), "ann") {
				keys++
				assert.EqualValues(t, "ratelimit.key", a.Key)
			}
		}
		assert.Equal(t, want, keys)
		for series := range s.collected() {
			assert.NotContains(t, series, "ann", "keys are in no metric")
		}
	}
}

func TestSpanHasTheClassOfAnErrorAndNotItsText(t *testing.T) {
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
		assert.NotContains(t, attributesText(spans[0].Attributes), "ratelimit.limit", "no limit is known")
	}
}

func attributesText(list []attribute.KeyValue) string {
	set := attribute.NewSet(list...)
	return set.Encoded(attribute.DefaultEncoder())
}
