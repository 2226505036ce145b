package promlimit

import (
	"unicode/utf8"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/tokenbucket-go/ratelimit/core"
)

// What is told of a store.
var (
	breakerState  = desc("breaker_state", "What the circuit breaker of a store does: 0 closed, 1 half-open, 2 open.")
	breakerOpened = desc("breaker_opened_total", "How often the circuit breaker of a store opened.")
	fallback      = desc("fallback_seconds_total", "For how long the circuit breaker of a store was not closed, so that each policy's OnFailure decided.")
	batchSize     = desc("batch_size", "Decisions that a call to Redis carried.")
	denyCacheHits = desc("deny_cache_hits_total", "Denials that were known to hold still and repeated without asking Redis.")
	leased        = desc("leased_decisions_total", "Decisions on tokens that this process had leased ahead.")

	storeDescs = []*prometheus.Desc{breakerState, breakerOpened, fallback, batchSize, denyCacheHits, leased}
)

func desc(name, help string) *prometheus.Desc {
	return prometheus.NewDesc("ratelimit_"+name, help, []string{"store"}, nil)
}

// watched is a store and what it is called.
type watched struct {
	name  string
	store *core.RedisStore
}

// WithRedisStore has the Collector tell what a store does, in series with the label store=name. It is
// read when it is scraped; that makes no call to Redis. Each store needs a name of its own.
func WithRedisStore(name string, store *core.RedisStore) Option {
	return func(c *Collector) {
		if store == nil {
			c.mistake("WithRedisStore(%q): must be a store", name)
			return
		}
		if !utf8.ValidString(name) {
			c.mistake("WithRedisStore(%q): the name must be UTF-8", name)
			return
		}
		for _, w := range c.stores {
			if w.name == name {
				c.mistake("WithRedisStore(%q): two stores must not have the same name", name)
				return
			}
		}
		c.stores = append(c.stores, watched{name, store})
	}
}

func (w watched) collect(ch chan<- prometheus.Metric) {
	stats := w.store.Stats()
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
	} {
		ch <- prometheus.MustNewConstMetric(m.desc, m.kind, m.value, w.name)
	}
	// Calls go on while they are read, so their number is taken from the classes themselves.
	calls, upTo := uint64(0), make(map[float64]uint64, core.BatchSizes)
	for i, n := range stats.Batches {
		calls += uint64(n)
		upTo[float64(int(1)<<i)] = calls
	}
	ch <- prometheus.MustNewConstHistogram(batchSize, calls, float64(stats.Decisions), upTo, w.name)
}
