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
	in := instruments{meter: meter}
	changes := in.counter("ratelimit.policy.changes", "{change}", series.ChangesHelp)
	capacity := in.gauge("ratelimit.limit.capacity", "{token}", series.CapacityHelp)
	counts := []struct {
		counter metric.Int64ObservableCounter
		of      func(storestats.Stats) int64
	}{
		{in.counter("ratelimit.breaker.opened", "{opening}", series.BreakerOpenedHelp), func(s storestats.Stats) int64 { return s.Opened }},
		{in.counter("ratelimit.redis.calls", "{call}", "Calls to Redis."), func(s storestats.Stats) int64 { return s.Calls }},
		{in.counter("ratelimit.redis.decisions", "{decision}", "Decisions in calls to Redis."), func(s storestats.Stats) int64 { return s.Decisions }},
		{in.counter("ratelimit.deny_cache.hits", "{decision}", series.DenyCacheHelp), func(s storestats.Stats) int64 { return s.Denied }},
		{in.counter("ratelimit.leased.decisions", "{decision}", series.LeasedHelp), func(s storestats.Stats) int64 { return s.Leased }},
		{in.counter("ratelimit.unreadable", "{answer}", series.UnreadableHelp), func(s storestats.Stats) int64 { return s.Unreadable }},
	}
	state := in.gauge("ratelimit.breaker.state", "{state}", series.BreakerStateHelp)
	away, err := meter.Float64ObservableCounter("ratelimit.fallback", metric.WithUnit("s"), metric.WithDescription(series.FallbackHelp))
	in.add(away, err)
	exceptions := in.gauge("ratelimit.exceptions", "{exception}", series.ExceptionsHelp)
	versions := in.gauge("ratelimit.exceptions.version", "{version}", series.ExceptionsVersionHelp)
	ages, err := meter.Float64ObservableGauge("ratelimit.exceptions.age", metric.WithUnit("s"), metric.WithDescription(series.ExceptionsAgeHelp))
	in.add(ages, err)
	if err := errors.Join(in.errs...); err != nil {
		return err
	}
	t.callback, err = meter.RegisterCallback(func(_ context.Context, o metric.Observer) error {
		t.limits.Each(func(c series.Capacity) {
			o.ObserveInt64(capacity, c.Tokens, with("policy", c.Policy), with("plan", c.Plan), with("limit", c.Limit))
		}, func(policy string, n int64) {
			o.ObserveInt64(changes, n, with("policy", policy))
		})
		for _, store := range t.settings.Stores {
			stats, name := store.Stats(), with("store", store.Name)
			for _, c := range counts {
				o.ObserveInt64(c.counter, c.of(stats), name)
			}
			o.ObserveInt64(state, int64(stats.Breaker), name)
			o.ObserveFloat64(away, stats.Away.Seconds(), name)
			for _, e := range stats.Exceptions {
				policy := with("policy", e.Policy)
				o.ObserveInt64(exceptions, int64(e.Overrides), name, policy, with("kind", "override"))
				o.ObserveInt64(exceptions, int64(e.Blocks), name, policy, with("kind", "block"))
				o.ObserveInt64(versions, e.Version, name, policy)
				o.ObserveFloat64(ages, e.Age.Seconds(), name, policy)
			}
		}
		return nil
	}, in.all...)
	return err
}

func with(name, value string) metric.MeasurementOption {
	return metric.WithAttributes(attribute.String("ratelimit."+name, value))
}

// instruments are created together, to be read by one callback.
type instruments struct {
	meter metric.Meter
	all   []metric.Observable
	errs  []error
}

func (i *instruments) add(o metric.Observable, err error) {
	i.all, i.errs = append(i.all, o), append(i.errs, err)
}

func (i *instruments) counter(name, unit, help string) metric.Int64ObservableCounter {
	c, err := i.meter.Int64ObservableCounter(name, metric.WithUnit(unit), metric.WithDescription(help))
	i.add(c, err)
	return c
}

func (i *instruments) gauge(name, unit, help string) metric.Int64ObservableGauge {
	g, err := i.meter.Int64ObservableGauge(name, metric.WithUnit(unit), metric.WithDescription(help))
	i.add(g, err)
	return g
}
