package promlimit

import (
	"github.com/prometheus/client_golang/prometheus"

	"github.com/tokenbucket-go/ratelimit/core/storestats"
	"github.com/tokenbucket-go/ratelimit/internal/series"
)

// The metrics of a store.
var (
	breakerState      = desc("breaker_state", series.BreakerStateHelp)
	breakerOpened     = desc("breaker_opened_total", series.BreakerOpenedHelp)
	fallback          = desc("fallback_seconds_total", series.FallbackHelp)
	batchSize         = desc("batch_size", "Decisions in one call to Redis.")
	denyCacheHits     = desc("deny_cache_hits_total", series.DenyCacheHelp)
	leased            = desc("leased_decisions_total", series.LeasedHelp)
	unreadable        = desc("unreadable_total", series.UnreadableHelp)
	exceptions        = desc("exceptions", series.ExceptionsHelp, "policy", "kind")
	exceptionsVersion = desc("exceptions_version", series.ExceptionsVersionHelp, "policy")
	exceptionsAge     = desc("exceptions_age_seconds", series.ExceptionsAgeHelp, "policy")

	storeDescs = []*prometheus.Desc{breakerState, breakerOpened, fallback, batchSize, denyCacheHits, leased, unreadable, exceptions, exceptionsVersion, exceptionsAge}
)

func desc(name, help string, labels ...string) *prometheus.Desc {
	return prometheus.NewDesc("ratelimit_"+name, help, append([]string{"store"}, labels...), nil)
}

// WithRedisStore exports metrics of a store, with the label store=name. They
// are read when Prometheus scrapes, which makes no call to Redis. Each store
// needs its own name, in UTF-8. If store is nil or name is used twice,
// registering the Collector fails.
func WithRedisStore(name string, store storestats.Source) Option {
	return func(c *Collector) { c.settings.AddStore(name, store) }
}

func collect(ch chan<- prometheus.Metric, store series.Store) {
	stats := store.Stats()
	for _, m := range []struct {
		desc  *prometheus.Desc
		kind  prometheus.ValueType
		value float64
	}{
		{breakerState, prometheus.GaugeValue, float64(stats.Breaker)},
		{breakerOpened, prometheus.CounterValue, float64(stats.Opened)},
		{fallback, prometheus.CounterValue, stats.Away.Seconds()},
		{denyCacheHits, prometheus.CounterValue, float64(stats.Denied)},
		{leased, prometheus.CounterValue, float64(stats.Leased)},
		{unreadable, prometheus.CounterValue, float64(stats.Unreadable)},
	} {
		ch <- prometheus.MustNewConstMetric(m.desc, m.kind, m.value, store.Name)
	}
	for _, e := range stats.Exceptions {
		ch <- prometheus.MustNewConstMetric(exceptions, prometheus.GaugeValue, float64(e.Overrides), store.Name, e.Policy, "override")
		ch <- prometheus.MustNewConstMetric(exceptions, prometheus.GaugeValue, float64(e.Blocks), store.Name, e.Policy, "block")
		ch <- prometheus.MustNewConstMetric(exceptionsVersion, prometheus.GaugeValue, float64(e.Version), store.Name, e.Policy)
		ch <- prometheus.MustNewConstMetric(exceptionsAge, prometheus.GaugeValue, e.Age.Seconds(), store.Name, e.Policy)
	}
	// The number of calls is the sum of the classes: a counter read later could
	// already include another call.
	calls, upTo := uint64(0), make(map[float64]uint64, storestats.BatchSizes)
	for i, n := range stats.Batches {
		calls += uint64(n)
		upTo[float64(int(1)<<i)] = calls
	}
	ch <- prometheus.MustNewConstHistogram(batchSize, calls, float64(stats.Decisions), upTo, store.Name)
}
