// Package otellimit exports metrics of rate limits to OpenTelemetry, and adds
// events to the spans of requests.
//
//	telemetry, err := otellimit.New(otellimit.WithRedisStore("main", store))
//	...
//	limiter, err := core.NewLimiter(store, policy, core.WithObserver(telemetry.Observe), core.WithPolicyObserver(telemetry.ObservePolicy))
//
// The metrics, which [docs/operations.md] lists, have a scope with this
// package's path and its module's version.
//
// The attributes, all but error.type with the prefix "ratelimit.":
//
//	| attribute  | type   | of            | value                                                                          |
//	| ---------- | ------ | ------------- | ------------------------------------------------------------------------------ |
//	| policy     | string | metric, event | the policy's name                                                              |
//	| limit      | string | metric, event | the tightest limit; missing if no limit is known                               |
//	| outcome    | string | metric, event | allowed, denied, shadow-denied, error                                          |
//	| source     | string | metric, event | store, deny-cache, lease, fallback, fail-open                                  |
//	| cost       | int    | event         | tokens that the request asked for                                              |
//	| key        | string | event         | the client's key, with [WithKeys]; in no metric                                |
//	| error.type | string | event         | why the store did not decide: breaker_open, timeout, canceled, unavailable     |
//	| store      | string | metric        | the name given to [WithRedisStore]                                             |
//
// The event is "ratelimit.decision". It is added to the span of the decision's
// context, if that span is recorded. With [WithEventLog] it is a log record
// instead, because OpenTelemetry is to deprecate the API of span events (OTEP
// 4430). Unless the request was allowed, the attributes are also set on the
// span, so traces can be searched for them. Of several such decisions the last
// one counts.
//
// [docs/operations.md]: https://github.com/tokenbucket-go/ratelimit/blob/main/docs/operations.md
package otellimit

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"

	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"

	"github.com/tokenbucket-go/ratelimit/core"
	"github.com/tokenbucket-go/ratelimit/internal/series"
)

const scope = "github.com/tokenbucket-go/ratelimit/otellimit"

// Telemetry measures decisions and stores. Create it with [New]. It is safe for
// concurrent use.
type Telemetry struct {
	decisions, tokens, unsettled metric.Int64Counter
	duration                     metric.Float64Histogram
	series                       *series.Cache[*labels]
	inUse                        metric.Int64UpDownCounter
	policies                     *series.Cache[[]metric.AddOption] // of failures and slots
	limits                       series.Limits

	events *slog.Logger // gets events instead of the spans, or is nil
	keys   bool         // events have keys

	settings series.Settings
	meters   metric.MeterProvider
	mu       sync.Mutex          // guards callback
	callback metric.Registration // reads the limits and the stores; nil after Close
}

// labels are the attributes of a series. They are built once, in the forms that
// the instruments take.
type labels struct {
	event    []attribute.KeyValue
	counted  []metric.AddOption
	recorded []metric.RecordOption
}

// Option is an option of [New].
type Option func(*Telemetry)

// WithMeterProvider sets the MeterProvider. The default is
// [otel.GetMeterProvider]. If provider is nil, New fails.
func WithMeterProvider(provider metric.MeterProvider) Option {
	return func(t *Telemetry) {
		if provider == nil {
			t.settings.ArgumentError("WithMeterProvider", nil, "must be a MeterProvider")
			return
		}
		t.meters = provider
	}
}

// WithEventLog writes the events of recorded spans to logger instead of the
// spans, as records of level Info with the event's name as the message, and
// with its attributes. logger gets the decision's context, so a handler such as
// that of otelslog (go.opentelemetry.io/contrib/bridges/otelslog) sends records
// with the ids of the trace and the span. Attributes that are set on spans stay
// there. If logger is nil, New fails.
func WithEventLog(logger *slog.Logger) Option {
	return func(t *Telemetry) {
		if logger == nil {
			t.settings.ArgumentError("WithEventLog", nil, "must be a Logger")
			return
		}
		t.events = logger
	}
}

// WithKeys adds the client's key to events. Keys can be personal data.
func WithKeys() Option {
	return func(t *Telemetry) { t.keys = true }
}

// WithMaxSeries bounds the sets of attributes of each of the three instruments
// for decisions to n. The default is 2,000. Decisions beyond the bound are
// counted under policy and limit "(other)", by outcome and source. Failed
// settlements and slots in use have at most n sets each. The SDK has its own
// bound for each instrument. If n is below 1, New fails.
func WithMaxSeries(n int) Option {
	return func(t *Telemetry) { t.settings.SetMost(n) }
}

// New returns Telemetry for any number of limiters and stores. Create one for
// each MeterProvider. If two on the same provider watch a store under one name,
// both report it and the SDK adds their counts. Close the first before you
// create a second. The error joins all mistakes in the options, or all errors
// of the meter.
func New(options ...Option) (*Telemetry, error) {
	t := &Telemetry{settings: series.Settings{Package: "otellimit", Most: series.DefaultMost}}
	for _, o := range options {
		if o != nil {
			o(t)
		}
	}
	if err := t.settings.Err(); err != nil {
		return nil, err
	}
	t.limits.Most = t.settings.Most
	if t.meters == nil {
		t.meters = otel.GetMeterProvider()
	}
	if err := t.register(t.meters.Meter(scope, metric.WithInstrumentationVersion(version()))); err != nil {
		return nil, fmt.Errorf("otellimit: %w", err)
	}
	t.series = series.New(t.settings.Most, newLabels)
	t.policies = series.New(t.settings.Most, func(k series.Key) []metric.AddOption {
		return []metric.AddOption{metric.WithAttributeSet(attribute.NewSet(attribute.String("ratelimit.policy", k.Policy)))}
	})
	return t, nil
}

// Close stops reading the limits and the stores, so another Telemetry on the
// same MeterProvider can watch them. Later decisions are still measured,
// because the instruments belong to the provider. Calls after the first do
// nothing.
func (t *Telemetry) Close() error {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.callback == nil {
		return nil
	}
	err := t.callback.Unregister()
	t.callback = nil
	if err != nil {
		return fmt.Errorf("otellimit: %w", err)
	}
	return nil
}

func (t *Telemetry) register(meter metric.Meter) error {
	var errs [5]error
	t.decisions, errs[0] = meter.Int64Counter("ratelimit.decisions", metric.WithUnit("{decision}"),
		metric.WithDescription("Decisions."))
	t.tokens, errs[1] = meter.Int64Counter("ratelimit.tokens", metric.WithUnit("{token}"),
		metric.WithDescription(series.TokensHelp))
	t.duration, errs[2] = meter.Float64Histogram("ratelimit.decision.duration", metric.WithUnit("s"),
		metric.WithDescription(series.DurationHelp),
		metric.WithExplicitBucketBoundaries(series.Bounds...))
	t.unsettled, errs[3] = meter.Int64Counter("ratelimit.unsettled", metric.WithUnit("{failure}"),
		metric.WithDescription(series.UnsettledHelp))
	t.inUse, errs[4] = meter.Int64UpDownCounter("ratelimit.slots.in_use", metric.WithUnit("{slot}"),
		metric.WithDescription(series.SlotsHelp))
	if err := errors.Join(errs[:]...); err != nil {
		return err
	}
	return t.watch(meter)
}

func newLabels(k series.Key) *labels {
	policy, source := attribute.String("ratelimit.policy", k.Policy), attribute.String("ratelimit.source", k.Source.String())
	all := []attribute.KeyValue{policy, source, attribute.String("ratelimit.outcome", k.Outcome.String())}
	if k.Limit != "" {
		all = append(all, attribute.String("ratelimit.limit", k.Limit))
	}
	return &labels{
		event:    all,
		counted:  []metric.AddOption{metric.WithAttributeSet(attribute.NewSet(all...))},
		recorded: []metric.RecordOption{metric.WithAttributeSet(attribute.NewSet(policy, source))},
	}
}

// Observe measures a decision and adds an event to the span in ctx. Failed
// settlements and slots it only counts. Pass it to [core.WithObserver]. If no
// span is recorded, it allocates only for a new series.
func (t *Telemetry) Observe(ctx context.Context, o core.Observation) {
	if o.Slots != 0 {
		t.inUse.Add(ctx, o.Slots, t.policies.Get(series.Key{Policy: o.Policy})...)
	}
	switch o.Outcome {
	case core.OutcomeUnsettled:
		t.unsettled.Add(ctx, 1, t.policies.Get(series.Key{Policy: o.Policy})...)
		return
	case core.OutcomeSlots:
		return
	}
	l := t.series.Get(series.Of(&o))
	t.decisions.Add(ctx, 1, l.counted...)
	t.tokens.Add(ctx, series.Tokens(&o), l.counted...)
	t.duration.Record(ctx, o.Latency.Seconds(), l.recorded...)
	t.record(ctx, &o, l.event)
}
