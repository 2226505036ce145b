package otellimit

import (
	"context"
	"errors"
	"log/slog"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/trace"

	"github.com/tokenbucket-go/ratelimit/core"
)

const event = "ratelimit.decision"

// record adds a decision to the span in ctx, or to the log, if that span is
// recorded. known are the attributes of the decision's series.
func (t *Telemetry) record(ctx context.Context, o *core.Observation, known []attribute.KeyValue) {
	span := trace.SpanFromContext(ctx)
	if !span.IsRecording() {
		return
	}
	attributes := append(make([]attribute.KeyValue, 0, len(known)+3), known...)
	attributes = append(attributes, attribute.Int64("ratelimit.cost", o.Cost))
	if t.keys {
		attributes = append(attributes, attribute.String("ratelimit.key", o.Key))
	}
	if o.Err != nil {
		attributes = append(attributes, attribute.String("error.type", errorType(o.Err)))
	}
	if t.events != nil {
		t.events.LogAttrs(ctx, slog.LevelInfo, event, logged(attributes)...)
	} else {
		span.AddEvent(event, trace.WithAttributes(attributes...))
	}
	if o.Outcome != core.OutcomeAllowed {
		span.SetAttributes(attributes...)
	}
}

func logged(attributes []attribute.KeyValue) []slog.Attr {
	list := make([]slog.Attr, len(attributes))
	for i, a := range attributes {
		list[i] = slog.Any(string(a.Key), a.Value.AsInterface())
	}
	return list
}

// errorType returns the class of an error. The text of an error may contain
// addresses, so it belongs only in logs.
func errorType(err error) string {
	switch {
	case errors.Is(err, core.ErrBreakerOpen): // first, because it also wraps the failure that opened the breaker
		return "breaker_open"
	case errors.Is(err, context.Canceled):
		return "canceled"
	case errors.Is(err, context.DeadlineExceeded):
		return "timeout"
	}
	return "unavailable"
}
