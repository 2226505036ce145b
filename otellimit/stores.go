package otellimit

import (
	"context"
	"errors"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"

	"github.com/tokenbucket-go/ratelimit/core"
	"github.com/tokenbucket-go/ratelimit/core/storestats"
	"github.com/tokenbucket-go/ratelimit/internal/series"
)

// WithRedisStore exports metrics of a store, with the attribute
// ratelimit.store=name. They are read when metrics are collected, which makes
// no call to Redis. Each store needs its own name, in UTF-8. If store is nil or
// name is used twice, New fails.
func WithRedisStore(name string, store storestats.Source) Option {
	return func(t *Telemetry) { t.settings.AddStore(name, store) }
}

// ObservePolicy takes in the limits that are in force. Pass it to
// [core.WithPolicyObserver]. Of several limiters of one policy name the last
// counts.
func (t *Telemetry) ObservePolicy(now core.Policy, changes []string) { t.limits.Note(now, changes) }

// watch registers a callback that reads the limits and the stores when metrics
// are collected.
func (t *Telemetry) watch(meter metric.Meter) error {
	var errs []error
	changes, err := meter.Int64ObservableCounter("ratelimit.policy.changes", metric.WithUnit("{change}"), metric.WithDescription(series.ChangesHelp))
	errs = append(errs, err)
	capacity, err := meter.Int64ObservableGauge("ratelimit.limit.capacity", metric.WithUnit("{token}"), metric.WithDescription(series.CapacityHelp))
	errs = append(errs, err)
	policies := func(o metric.Observer) {
		t.limits.Each(func(c series.Capacity) {
			o.ObserveInt64(capacity, c.Tokens, metric.WithAttributes(attribute.String("ratelimit.policy", c.Policy), attribute.String("ratelimit.plan", c.Plan), attribute.String("ratelimit.limit", c.Limit)))
		}, func(policy string, n int64) {
			o.ObserveInt64(changes, n, metric.WithAttributes(attribute.String("ratelimit.policy", policy)))
		})
	}
	count := func(name, unit, description string) metric.Int64Observable {
		c, err := meter.Int64ObservableCounter(name, metric.WithUnit(unit), metric.WithDescription(description))
		errs = append(errs, err)
		return c
	}
	opened := count("ratelimit.breaker.opened", "{opening}", series.BreakerOpenedHelp)
	calls := count("ratelimit.redis.calls", "{call}", "Calls to Redis.")
	carried := count("ratelimit.redis.decisions", "{decision}", "Decisions in calls to Redis.")
	denied := count("ratelimit.deny_cache.hits", "{decision}", series.DenyCacheHelp)
	leased := count("ratelimit.leased.decisions", "{decision}", series.LeasedHelp)
	unreadable := count("ratelimit.unreadable", "{answer}", series.UnreadableHelp)
	state, err := meter.Int64ObservableGauge("ratelimit.breaker.state", metric.WithUnit("{state}"),
		metric.WithDescription(series.BreakerStateHelp))
	errs = append(errs, err)
	exceptions, err := gaugesOf(meter)
	errs = append(errs, err)
	away, err := meter.Float64ObservableCounter("ratelimit.fallback", metric.WithUnit("s"),
		metric.WithDescription(series.FallbackHelp))
	if err := errors.Join(append(errs, err)...); err != nil {
		return err
	}
	names := make([]metric.MeasurementOption, len(t.settings.Stores))
	for i, store := range t.settings.Stores {
		names[i] = metric.WithAttributes(attribute.String("ratelimit.store", store.Name))
	}
	t.callback, err = meter.RegisterCallback(func(_ context.Context, o metric.Observer) error {
		policies(o)
		for i, store := range t.settings.Stores {
			stats, name := store.Stats(), names[i]
			o.ObserveInt64(opened, stats.Opened, name)
			o.ObserveInt64(calls, stats.Calls, name)
			o.ObserveInt64(carried, stats.Decisions, name)
			o.ObserveInt64(denied, stats.Denied, name)
			o.ObserveInt64(leased, stats.Leased, name)
			o.ObserveInt64(unreadable, stats.Unreadable, name)
			o.ObserveInt64(state, int64(stats.Breaker), name)
			o.ObserveFloat64(away, stats.Away.Seconds(), name)
			for _, e := range stats.Exceptions {
				exceptions.observe(o, e, name)
			}
		}
		return nil
	}, changes, capacity, opened, calls, carried, denied, leased, unreadable, state, away, exceptions.inForce, exceptions.version, exceptions.age)
	return err
}

// exceptionGauges are the metrics of the exceptions of a policy.
type exceptionGauges struct {
	inForce, version metric.Int64ObservableGauge
	age              metric.Float64ObservableGauge
}

func gaugesOf(meter metric.Meter) (g exceptionGauges, err error) {
	var errs [3]error
	g.inForce, errs[0] = meter.Int64ObservableGauge("ratelimit.exceptions", metric.WithUnit("{exception}"), metric.WithDescription(series.ExceptionsHelp))
	g.version, errs[1] = meter.Int64ObservableGauge("ratelimit.exceptions.version", metric.WithUnit("{version}"), metric.WithDescription(series.ExceptionsVersionHelp))
	g.age, errs[2] = meter.Float64ObservableGauge("ratelimit.exceptions.age", metric.WithUnit("s"), metric.WithDescription(series.ExceptionsAgeHelp))
	return g, errors.Join(errs[:]...)
}

func (g *exceptionGauges) observe(o metric.Observer, e storestats.Exceptions, store metric.MeasurementOption) {
	policy := metric.WithAttributes(attribute.String("ratelimit.policy", e.Policy))
	o.ObserveInt64(g.inForce, int64(e.Overrides), store, policy, metric.WithAttributes(attribute.String("ratelimit.kind", "override")))
	o.ObserveInt64(g.inForce, int64(e.Blocks), store, policy, metric.WithAttributes(attribute.String("ratelimit.kind", "block")))
	o.ObserveInt64(g.version, e.Version, store, policy)
	o.ObserveFloat64(g.age, e.Age.Seconds(), store, policy)
}
