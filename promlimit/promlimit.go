// Package promlimit exports metrics of rate limits to Prometheus.
//
//	metrics := promlimit.New(promlimit.WithRedisStore("main", store))
//	prometheus.MustRegister(metrics)
//	limiter, err := core.NewLimiter(store, policy, core.WithObserver(metrics.Observe), core.WithPolicyObserver(metrics.ObservePolicy))
//
// One [Collector] serves all limiters and stores of a process:
//
//	ratelimit_decisions_total{policy,limit,outcome,source}     decisions
//	ratelimit_tokens_total{policy,outcome}                     tokens that decisions asked for, each at most a Capacity
//	ratelimit_decision_duration_seconds{policy,source}         how long decisions took: a histogram, classic and native
//	ratelimit_unsettled_total{policy}                          settlements and debits that failed
//	ratelimit_slots_in_use{policy}                             slots that this process uses
//	ratelimit_breaker_state{store}                             0 closed, 1 half-open, 2 open
//	ratelimit_breaker_opened_total{store}                      how often a breaker opened
//	ratelimit_fallback_seconds_total{store}                    how long a breaker was not closed
//	ratelimit_batch_size{store}                                decisions in one call to Redis: a histogram
//	ratelimit_deny_cache_hits_total{store}                     denials from the deny cache, without a call to Redis
//	ratelimit_leased_decisions_total{store}                    decisions from leased tokens
//	ratelimit_unreadable_total{store}                          answers that a key's state can't be used
//	ratelimit_limit_capacity{policy,plan,limit}                Capacity of a limit that is in force
//	ratelimit_policy_changes_total{policy}                     how often SetPolicy changed a policy
//	ratelimit_client_requests_total{client,event}              requests of clients of other services, by [Collector.ObserveClient]
//	ratelimit_client_wait_seconds{client}                      how long they waited before they were sent: a histogram
//	ratelimit_client_waiting{client}                           those that wait
//
// Outcomes are those of [core.Outcome], and sources are those of [core.Source].
// limit is the tightest limit. It is empty if no limit is known, for example
// after an error. Keys of clients are in no series. So a policy of n limits,
// those of its tiers included, has at most 6·n+2 series of decisions, 3·n more
// if it changes to or from shadow mode, and usually 2·n. It has one histogram
// of durations for each source. Each takes as many series as it has buckets,
// plus 3. [WithMaxSeries] bounds all of them together. Failed settlements have
// one series for each policy with any, and are in no other series. Each limit
// has one series for its Capacity, and each policy one for its changes.
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
	decisions, tokens, unsettled *prometheus.CounterVec
	duration                     *prometheus.HistogramVec
	series                       *series.Cache[*counted]
	inUse                        *prometheus.GaugeVec
	durations                    *series.Cache[prometheus.Observer]
	failures                     *series.Cache[prometheus.Counter]
	slots                        *series.Cache[prometheus.Gauge]
	limits                       series.Limits
	clients                      clients

	settings series.Settings
	buckets  []float64
	exemplar func(context.Context) prometheus.Labels
}

// counted holds the metrics of one series of decisions.
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
// These add at most 20 series of decisions, 4 of tokens and 5 histograms. So
// the default allows at most 6,114 series, and 111 histograms of durations name
// their policy. Failed settlements have at most n series more, and one for
// "(other)", and so have changes of policies and slots in use. At most n limits
// have a Capacity. If n is below 1, registering the Collector fails.
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
	c.decisions = prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "ratelimit_decisions_total",
		Help: "Decisions by policy, tightest limit, outcome (allowed, denied, shadow-denied, error) and source.",
	}, []string{"policy", "limit", "outcome", "source"})
	c.tokens = prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "ratelimit_tokens_total",
		Help: series.TokensHelp,
	}, []string{"policy", "outcome"})
	c.duration = prometheus.NewHistogramVec(prometheus.HistogramOpts{
		Name:    "ratelimit_decision_duration_seconds",
		Help:    series.DurationHelp,
		Buckets: c.buckets,

		NativeHistogramBucketFactor:     1.1,
		NativeHistogramMaxBucketNumber:  160,
		NativeHistogramMinResetDuration: time.Hour, // a histogram with too many buckets starts again at most this often
	}, []string{"policy", "source"})
	c.unsettled = prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "ratelimit_unsettled_total",
		Help: series.UnsettledHelp,
	}, []string{"policy"})
	c.failures = series.New(c.settings.Most, func(k series.Key) prometheus.Counter { return c.unsettled.WithLabelValues(k.Policy) })
	c.inUse = prometheus.NewGaugeVec(prometheus.GaugeOpts{
		Name: "ratelimit_slots_in_use",
		Help: series.SlotsHelp,
	}, []string{"policy"})
	c.slots = series.New(c.settings.Most, func(k series.Key) prometheus.Gauge { return c.inUse.WithLabelValues(k.Policy) })
	c.limits.Most, c.clients = c.settings.Most, newClients()
	lines := len(c.buckets) + 3 // +Inf, _sum and _count
	c.durations = series.New(max(1, c.settings.Most/lines), func(k series.Key) prometheus.Observer {
		return c.duration.WithLabelValues(k.Policy, k.Source.String())
	})
	c.series = series.New(c.settings.Most, func(k series.Key) *counted {
		return &counted{
			c.decisions.WithLabelValues(k.Policy, k.Limit, k.Outcome.String(), k.Source.String()),
			c.tokens.WithLabelValues(k.Policy, k.Outcome.String()),
			c.durations.Get(series.Key{Policy: k.Policy, Source: k.Source}),
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
	c.decisions.Describe(ch)
	c.tokens.Describe(ch)
	c.duration.Describe(ch)
	c.unsettled.Describe(ch)
	c.inUse.Describe(ch)
	for _, of := range c.clients.all() {
		of.Describe(ch)
	}
	ch <- capacity
	ch <- changes
	for _, d := range storeDescs {
		ch <- d
	}
}

// Collect implements [prometheus.Collector]. It makes no call to Redis.
func (c *Collector) Collect(ch chan<- prometheus.Metric) {
	c.decisions.Collect(ch)
	c.tokens.Collect(ch)
	c.duration.Collect(ch)
	c.unsettled.Collect(ch)
	c.inUse.Collect(ch)
	for _, of := range c.clients.all() {
		of.Collect(ch)
	}
	c.collectPolicies(ch)
	for _, store := range c.settings.Stores {
		collect(ch, store)
	}
}
