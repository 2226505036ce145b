// Package promlimit exports metrics of rate limits to Prometheus.
//
//	metrics := promlimit.New(promlimit.WithRedisStore("main", store))
//	prometheus.MustRegister(metrics)
//	limiter, err := core.NewLimiter(store, policy, core.WithObserver(metrics.Observe), core.WithPolicyObserver(metrics.ObservePolicy))
//
// One [Collector] serves all limiters and stores of a process. The metrics and
// their labels are in [docs/operations.md]. Keys of clients are in no series:
// [WithMaxSeries] bounds those of decisions.
//
// [docs/operations.md]: https://github.com/tokenbucket-go/ratelimit/blob/main/docs/operations.md
package promlimit

import (
	"context"
	"math"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/tokenbucket-go/ratelimit/core"
	"github.com/tokenbucket-go/ratelimit/internal/series"
)

// Collector counts decisions. It reads the stores when Prometheus scrapes it.
// Create it with [New]. It is safe for concurrent use.
type Collector struct {
	vectors  []prometheus.Collector
	series   *series.Cache[*counted]
	failures *series.Cache[prometheus.Counter]
	slots    *series.Cache[prometheus.Gauge]
	limits   series.Limits

	settings series.Settings
	buckets  []float64
	exemplar func(context.Context) prometheus.Labels
}

type counted struct {
	decisions, tokens prometheus.Counter
	duration          prometheus.Observer
}

// Option is an option of [New].
type Option func(*Collector)

// WithBuckets sets the upper bounds of the duration histogram's classic
// buckets, in seconds and in increasing order. The default is 15 bounds from 1
// µs to 1 s. The native histogram, which servers can ask for, needs no bounds.
func WithBuckets(seconds ...float64) Option {
	return func(c *Collector) {
		for i, s := range seconds {
			if math.IsNaN(s) || i > 0 && s <= seconds[i-1] {
				c.settings.ArgumentError("WithBuckets", seconds, "must be in increasing order")
				return
			}
		}
		if len(seconds) == 0 {
			c.settings.ArgumentError("WithBuckets", seconds, "must be at least one bound")
			return
		}
		c.buckets = slices.Clone(seconds)
	}
}

// WithMaxSeries bounds the series of decisions, of tokens and of durations (as
// classic histograms), each to n. The default is 2,000. Decisions beyond the
// bound are counted under policy and limit "(other)", by outcome and source.
// Failed settlements, slots in use, changes of policies and limits with a
// Capacity are at most n each. If n is below 1, registering the Collector
// fails.
func WithMaxSeries(n int) Option {
	return func(c *Collector) { c.settings.SetMost(n) }
}

// WithExemplars adds exemplars with the labels that f returns, such as the
// trace's ID, to durations. If f returns nil, there is no exemplar. There is
// none either if the labels are longer than [prometheus.ExemplarMaxRunes]
// together, or if a name or value is not UTF-8, a name is empty, or a name
// begins with the "__" that Prometheus reserves. Exemplars are exposed only in
// the OpenMetrics format: see [promhttp.HandlerOpts].
//
// [promhttp.HandlerOpts]: https://pkg.go.dev/github.com/prometheus/client_golang/prometheus/promhttp#HandlerOpts
func WithExemplars(f func(context.Context) prometheus.Labels) Option {
	return func(c *Collector) { c.exemplar = f }
}

// New returns a Collector. Registering it fails with all mistakes in the
// options.
func New(options ...Option) *Collector {
	c := &Collector{settings: series.Settings{Package: "promlimit", Most: series.DefaultMost}, buckets: series.Bounds}
	for _, o := range options {
		if o != nil {
			o(c)
		}
	}
	counter := func(name, help string, labels ...string) *prometheus.CounterVec {
		return prometheus.NewCounterVec(prometheus.CounterOpts{Name: "ratelimit_" + name, Help: help}, labels)
	}
	decisions := counter("decisions_total", "Decisions by policy, tightest limit, outcome (allowed, denied, shadow-denied, error) and source.",
		"policy", "limit", "outcome", "source")
	tokens := counter("tokens_total", series.TokensHelp, "policy", "outcome")
	unsettled := counter("unsettled_total", series.UnsettledHelp, "policy")
	duration := prometheus.NewHistogramVec(prometheus.HistogramOpts{
		Name:    "ratelimit_decision_duration_seconds",
		Help:    series.DurationHelp,
		Buckets: c.buckets,

		NativeHistogramBucketFactor:     1.1,
		NativeHistogramMaxBucketNumber:  160,
		NativeHistogramMinResetDuration: time.Hour, // a histogram with too many buckets starts again at most this often
	}, []string{"policy", "source"})
	c.failures = series.New(c.settings.Most, func(k series.Key) prometheus.Counter { return unsettled.WithLabelValues(k.Policy) })
	inUse := prometheus.NewGaugeVec(prometheus.GaugeOpts{Name: "ratelimit_slots_in_use", Help: series.SlotsHelp}, []string{"policy"})
	c.slots = series.New(c.settings.Most, func(k series.Key) prometheus.Gauge { return inUse.WithLabelValues(k.Policy) })
	c.vectors = []prometheus.Collector{decisions, tokens, duration, unsettled, inUse}
	c.limits.Most = c.settings.Most
	lines := len(c.buckets) + 3 // +Inf, _sum and _count
	durations := series.New(max(1, c.settings.Most/lines), func(k series.Key) prometheus.Observer {
		return duration.WithLabelValues(k.Policy, k.Source.String())
	})
	c.series = series.New(c.settings.Most, func(k series.Key) *counted {
		return &counted{
			decisions.WithLabelValues(k.Policy, k.Limit, k.Outcome.String(), k.Source.String()),
			tokens.WithLabelValues(k.Policy, k.Outcome.String()),
			durations.Get(series.Key{Policy: k.Policy, Source: k.Source}),
		}
	})
	return c
}

// Observe counts a decision, a failed settlement, or slots. Pass it to
// [core.WithObserver]. It allocates only for a new series and for exemplars.
func (c *Collector) Observe(ctx context.Context, o core.Observation) {
	if o.Slots != 0 {
		c.slots.Get(series.Key{Policy: o.Policy}).Add(float64(o.Slots))
	}
	switch o.Outcome {
	case core.OutcomeUnsettled:
		c.failures.Get(series.Key{Policy: o.Policy}).Inc()
		return
	case core.OutcomeSlots:
		return
	}
	s := c.series.Get(series.Of(&o))
	s.decisions.Inc()
	s.tokens.Add(float64(series.Tokens(&o)))
	if c.exemplar != nil {
		if labels := c.exemplar(ctx); fits(labels) {
			s.duration.(prometheus.ExemplarObserver).ObserveWithExemplar(o.Latency.Seconds(), labels)
			return
		}
	}
	s.duration.Observe(o.Latency.Seconds())
}

// fits reports whether client_golang accepts the labels for an exemplar. It
// panics on other labels, and a client may have sent their values.
func fits(labels prometheus.Labels) bool {
	runes := 0
	for name, value := range labels {
		if name == "" || strings.HasPrefix(name, "__") || !utf8.ValidString(name) || !utf8.ValidString(value) {
			return false
		}
		runes += utf8.RuneCountInString(name) + utf8.RuneCountInString(value)
	}
	return len(labels) > 0 && runes <= prometheus.ExemplarMaxRunes
}

// Describe implements [prometheus.Collector].
func (c *Collector) Describe(ch chan<- *prometheus.Desc) {
	if err := c.settings.Err(); err != nil {
		ch <- prometheus.NewInvalidDesc(err)
		return
	}
	for _, v := range c.vectors {
		v.Describe(ch)
	}
	ch <- capacity
	ch <- changes
	for _, d := range storeDescs {
		ch <- d
	}
}

// Collect implements [prometheus.Collector]. It makes no call to Redis.
func (c *Collector) Collect(ch chan<- prometheus.Metric) {
	for _, v := range c.vectors {
		v.Collect(ch)
	}
	c.collectPolicies(ch)
	for _, store := range c.settings.Stores {
		collect(ch, store)
	}
}
