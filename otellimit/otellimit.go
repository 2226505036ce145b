// Package otellimit tells OpenTelemetry what rate limits do: metrics, and events on the spans of
// requests.
//
//	telemetry, err := otellimit.New(otellimit.WithRedisStore("main", store))
//	...
//	limiter, err := core.NewLimiter(store, policy, core.WithObserver(telemetry.Observe))
//
// Metrics, of the scope that is this package's path and its module's version:
//
//	| metric                      | kind      | unit       | attributes                           |                                                    |
//	| --------------------------- | --------- | ---------- | ------------------------------------ | -------------------------------------------------- |
//	| ratelimit.decisions         | counter   | {decision} | policy, limit, outcome, source       | decisions                                          |
//	| ratelimit.tokens            | counter   | {token}    | policy, limit, outcome, source       | tokens asked of buckets, each at most a Capacity   |
//	| ratelimit.decision.duration | histogram | s          | policy, source                       | how long they took, waits for Redis included       |
//	| ratelimit.breaker.state     | gauge     | {state}    | store                                | 0 closed, 1 half-open, 2 open                      |
//	| ratelimit.breaker.opened    | counter   | {opening}  | store                                | how often it opened                                |
//	| ratelimit.fallback          | counter   | s          | store                                | how long it was not closed                         |
//	| ratelimit.redis.calls       | counter   | {call}     | store                                | calls to Redis                                     |
//	| ratelimit.redis.decisions   | counter   | {decision} | store                                | decisions that they carried: by calls, a batch     |
//	| ratelimit.deny_cache.hits   | counter   | {decision} | store                                | denials repeated without a call                    |
//	| ratelimit.leased.decisions  | counter   | {decision} | store                                | decisions on tokens leased ahead                   |
//
// Attributes, each with the prefix "ratelimit." but error.type:
//
//	| attribute  | type   | of            | value                                                                          |
//	| ---------- | ------ | ------------- | ------------------------------------------------------------------------------ |
//	| policy     | string | metric, event | the policy's name                                                              |
//	| limit      | string | metric, event | the limit that mattered most; not there when nothing is known of any           |
//	| outcome    | string | metric, event | allowed, denied, shadow-denied, error                                          |
//	| source     | string | metric, event | store, deny-cache, lease, fallback, fail-open                                  |
//	| cost       | int    | event         | tokens that were asked for                                                     |
//	| key        | string | event         | the client's key, if the limiter has [core.WithObservedKeys]; in no metric     |
//	| error.type | string | event         | why the store did not decide: breaker_open, timeout, canceled, unavailable     |
//	| store      | string | metric        | the name given to [WithRedisStore]                                             |
//
// The event is "ratelimit.decision", on the span of the context that the decision was asked with, if
// that is recorded. Unless the request was plainly allowed, its attributes are set on the span as well,
// so that traces can be searched for them; of several decisions the last such one stays.
package otellimit

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"

	"github.com/tokenbucket-go/ratelimit/core"
	"github.com/tokenbucket-go/ratelimit/internal/series"
)

const scope = "github.com/tokenbucket-go/ratelimit/otellimit"

// Telemetry measures decisions and stores. Make it with [New]. It is safe for concurrent use.
type Telemetry struct {
	decisions, tokens metric.Int64Counter
	duration          metric.Float64Histogram
	series            *series.Cache[*labels]

	settings series.Settings
	meters   metric.MeterProvider
	reading  metric.Registration // of the stores; nil without any, and once closed
	closing  sync.Mutex          // guards reading
}

// labels are a series' attributes, in the shapes that instruments want, so that they are made once.
type labels struct {
	event    []attribute.KeyValue
	counted  []metric.AddOption
	recorded []metric.RecordOption
}

// Option is an option of [New].
type Option func(*Telemetry)

// WithMeterProvider sets whose meter measures: by default [otel.GetMeterProvider]'s.
func WithMeterProvider(provider metric.MeterProvider) Option {
	return func(t *Telemetry) {
		if provider == nil {
			t.settings.Mistake("WithMeterProvider: must be a MeterProvider")
			return
		}
		t.meters = provider
	}
}

// WithMaxSeries bounds the sets of attributes of each instrument for decisions, of which there are three: by
// default 2,000. Decisions that would make more are counted as those of policy and limit "(other)", by their
// outcome and source: at most 20 sets that come on top. A backend that makes a series of each bucket of a
// histogram has 18 of each set of durations. The SDK has a bound of its own for each instrument.
func WithMaxSeries(n int) Option {
	return func(t *Telemetry) { t.settings.SetMost(n) }
}

// New returns Telemetry for any number of limiters and stores. Make one for each MeterProvider: of two on the
// same provider both report a store that they watch under one name, and the SDK adds their counts up. Close
// the first before you make a second. The error joins every mistake in the options, or tells what the meter
// refused.
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
	if t.meters == nil {
		t.meters = otel.GetMeterProvider()
	}
	if err := t.register(t.meters.Meter(scope, metric.WithInstrumentationVersion(version()))); err != nil {
		return nil, fmt.Errorf("otellimit: %w", err)
	}
	t.series = series.New(t.settings.Most, newLabels)
	return t, nil
}

// Close ends the reading of stores, so that a successor on the same MeterProvider can watch them. Decisions
// that are observed later are still measured: instruments are the provider's. Calls after the first do nothing.
func (t *Telemetry) Close() error {
	t.closing.Lock()
	defer t.closing.Unlock()
	if t.reading == nil {
		return nil
	}
	err := t.reading.Unregister()
	t.reading = nil
	if err != nil {
		return fmt.Errorf("otellimit: %w", err)
	}
	return nil
}

// register makes the instruments.
func (t *Telemetry) register(meter metric.Meter) error {
	var errs [3]error
	t.decisions, errs[0] = meter.Int64Counter("ratelimit.decisions", metric.WithUnit("{decision}"),
		metric.WithDescription("Decisions."))
	t.tokens, errs[1] = meter.Int64Counter("ratelimit.tokens", metric.WithUnit("{token}"),
		metric.WithDescription(series.TokensHelp))
	t.duration, errs[2] = meter.Float64Histogram("ratelimit.decision.duration", metric.WithUnit("s"),
		metric.WithDescription(series.DurationHelp),
		metric.WithExplicitBucketBoundaries(series.Bounds...))
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

// Observe measures a decision, and tells its span of it. It is a [core.Observer]: give it to
// [core.WithObserver].
func (t *Telemetry) Observe(ctx context.Context, o core.Observation) {
	l := t.series.Get(series.Of(&o))
	t.decisions.Add(ctx, 1, l.counted...)
	t.tokens.Add(ctx, series.Tokens(&o), l.counted...)
	t.duration.Record(ctx, o.Latency.Seconds(), l.recorded...)
	record(ctx, &o, l.event)
}
