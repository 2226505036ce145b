package otellimit

import (
	"context"
	"errors"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"

	"github.com/tokenbucket-go/ratelimit/core"
)

// watched is a store and its attribute.
type watched struct {
	name  string
	store *core.RedisStore
	label metric.MeasurementOption
}

// WithRedisStore measures what a store does, with the attribute ratelimit.store=name. It is read when
// metrics are collected; that makes no call to Redis. Each store needs a name of its own.
func WithRedisStore(name string, store *core.RedisStore) Option {
	return func(t *Telemetry) {
		if store == nil {
			t.mistake("WithRedisStore(%q): must be a store", name)
			return
		}
		for _, w := range t.stores {
			if w.name == name {
				t.mistake("WithRedisStore(%q): two stores must not have the same name", name)
				return
			}
		}
		t.stores = append(t.stores, watched{name, store, metric.WithAttributes(attribute.String("ratelimit.store", name))})
	}
}

// watch has the stores read whenever the meter's reader collects.
func (t *Telemetry) watch(meter metric.Meter) error {
	if len(t.stores) == 0 {
		return nil
	}
	var errs []error
	count := func(name, unit, description string) metric.Int64Observable {
		c, err := meter.Int64ObservableCounter(name, metric.WithUnit(unit), metric.WithDescription(description))
		errs = append(errs, err)
		return c
	}
	opened := count("ratelimit.breaker.opened", "{opening}", "How often the circuit breaker of a store opened.")
	calls := count("ratelimit.redis.calls", "{call}", "Calls to Redis.")
	carried := count("ratelimit.redis.decisions", "{decision}", "Decisions that calls to Redis carried.")
	denied := count("ratelimit.deny_cache.hits", "{decision}", "Denials that were known to hold still and repeated without asking Redis.")
	leased := count("ratelimit.leased.decisions", "{decision}", "Decisions on tokens that this process had leased ahead.")
	state, err := meter.Int64ObservableGauge("ratelimit.breaker.state",
		metric.WithDescription("What the circuit breaker of a store does: 0 closed, 1 half-open, 2 open."))
	errs = append(errs, err)
	away, err := meter.Float64ObservableCounter("ratelimit.fallback", metric.WithUnit("s"),
		metric.WithDescription("For how long the circuit breaker of a store was not closed, so that each policy's OnFailure decided."))
	if err := errors.Join(append(errs, err)...); err != nil {
		return err
	}
	_, err = meter.RegisterCallback(func(_ context.Context, o metric.Observer) error {
		for _, w := range t.stores {
			stats := w.store.Stats()
			o.ObserveInt64(opened, stats.Opened, w.label)
			o.ObserveInt64(calls, stats.Calls, w.label)
			o.ObserveInt64(carried, stats.Decisions, w.label)
			o.ObserveInt64(denied, stats.Denied, w.label)
			o.ObserveInt64(leased, stats.Leased, w.label)
			o.ObserveInt64(state, int64(stats.Breaker), w.label)
			o.ObserveFloat64(away, stats.Away.Seconds(), w.label)
		}
		return nil
	}, opened, calls, carried, denied, leased, state, away)
	return err
}
