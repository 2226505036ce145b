package otellimit

import (
	"context"
	"errors"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/trace"

	"github.com/tokenbucket-go/ratelimit/core"
)

// record adds a decision to the span in ctx, if that span is recorded. known are the attributes of the decision's series.
func record(ctx context.Context, o *core.Observation, known []attribute.KeyValue) {
	span := trace.SpanFromContext(ctx)
	if !span.IsRecording() {
		return
	}
	attributes := append(make([]attribute.KeyValue, 0, len(known)+3), known...)
	attributes = append(attributes, attribute.Int64("ratelimit.cost", o.Cost))
	if o.Key != "" {
		attributes = append(attributes, attribute.String("ratelimit.key", o.Key))
	}
	if o.Err != nil {
		attributes = append(attributes, attribute.String("error.type", errorType(o.Err)))
	}
	span.AddEvent("ratelimit.decision", trace.WithAttributes(attributes...))
	if o.Outcome != core.OutcomeAllowed {
		span.SetAttributes(attributes...)
	}
}

// errorType returns the class of an error. The text of an error may contain addresses, so it belongs only in logs.
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
