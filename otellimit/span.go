package otellimit

import (
	"context"
	"errors"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/trace"

	"github.com/tokenbucket-go/ratelimit/core"
)

// record tells ctx's span, if it is recorded, of a decision that has the attributes of its series.
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

// errorType is the class of an error. Its text may have addresses in it and is for logs.
func errorType(err error) string {
	switch {
	case errors.Is(err, core.ErrBreakerOpen): // which tells the failure before as well
		return "breaker_open"
	case errors.Is(err, context.Canceled):
		return "canceled"
	case errors.Is(err, context.DeadlineExceeded):
		return "timeout"
	}
	return "unavailable"
}
