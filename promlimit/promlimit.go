// Package promlimit tells Prometheus what rate limits do.
//
//	metrics := promlimit.New(promlimit.WithRedisStore("main", store))
//	prometheus.MustRegister(metrics)
//	limiter, err := core.NewLimiter(store, policy, core.WithObserver(metrics.Observe))
//
// One [Collector] serves all limiters and stores of a process:
//
//	ratelimit_decisions_total{policy,limit,outcome,source}     decisions
//	ratelimit_tokens_total{policy,outcome}                     tokens asked of buckets, each at most a Capacity
//	ratelimit_decision_duration_seconds{policy,source}         how long each took: a histogram, classic and native
//	ratelimit_breaker_state{store}                             0 closed, 1 half-open, 2 open
//	ratelimit_breaker_opened_total{store}                      how often it opened
//	ratelimit_fallback_seconds_total{store}                    how long it was not closed
//	ratelimit_batch_size{store}                                decisions carried by a call to Redis: a histogram
//	ratelimit_deny_cache_hits_total{store}                     denials repeated without a call
//	ratelimit_leased_decisions_total{store}                    decisions on tokens leased ahead
//
// Outcomes are those of [core.Outcome], sources those of [core.Source]. limit is the one that mattered
// most, empty when nothing is known of any, as of errors. Keys of clients are never told, so a policy of
// n limits, those of its tiers included, has at most 6·n+2 series of decisions, 3·n more if it changes
// to or from shadow mode, and commonly 2·n. Each of its histograms of durations, one for each source, takes
// as many series as it has buckets, and 3. [WithMaxSeries] bounds all of them together.
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

// Collector counts decisions and reads stores when it is scraped. Make it with [New]. It is safe for
// concurrent use.
type Collector struct {
	decisions, tokens *prometheus.CounterVec
	duration          *prometheus.HistogramVec
	series            *series.Cache[*counted]
	durations         *series.Cache[prometheus.Observer]

	settings series.Settings
	buckets  []float64
	exemplar func(context.Context) prometheus.Labels
}

// counted is a series of decisions.
type counted struct {
	decisions, tokens prometheus.Counter
	duration          prometheus.Observer
}

// Option is an option of [New].
type Option func(*Collector)

// WithBuckets sets the upper bounds of the duration histogram's classic buckets, in seconds and in
// increasing order: by default 15 from 1 µs to 1 s. The native histogram, which servers that ask for it
// get, needs none.
func WithBuckets(seconds ...float64) Option {
	return func(c *Collector) {
		for i, s := range seconds {
			if math.IsNaN(s) || i > 0 && s <= seconds[i-1] {
				c.settings.Mistake("WithBuckets: %v: must be in increasing order", seconds)
				return
			}
		}
		if len(seconds) == 0 {
			c.settings.Mistake("WithBuckets: must be at least one bound")
			return
		}
		c.buckets = slices.Clone(seconds)
	}
}

// WithMaxSeries bounds the series of decisions, those of tokens, and those of durations (as classic
// histograms), each to n: by default 2,000. What would make more is counted as of policy and limit "(other)", by
// its outcome and source: at most 20 series of decisions, 4 of tokens and 5 histograms that come on top. So by
// default all are at most 6,114, and 111 histograms of durations tell their policy.
func WithMaxSeries(n int) Option {
	return func(c *Collector) { c.settings.SetMost(n) }
}

// WithExemplars has durations carry the labels that f returns, such as the trace's ID. It returns nil
// for none. They are left out, all of them, if they are more than [prometheus.ExemplarMaxRunes] together, or
// if one of them is no UTF-8, has no name, or a name that begins with the "__" that Prometheus keeps for
// itself. They are exposed as OpenMetrics only: see [promhttp.HandlerOpts].
//
// [promhttp.HandlerOpts]: https://pkg.go.dev/github.com/prometheus/client_golang/prometheus/promhttp#HandlerOpts
func WithExemplars(f func(context.Context) prometheus.Labels) Option {
	return func(c *Collector) { c.exemplar = f }
}

// New returns a Collector. Mistakes in its options are reported when it is registered, all at once.
func New(options ...Option) *Collector {
	c := &Collector{settings: series.Settings{Package: "promlimit", Most: series.DefaultMost}, buckets: series.Bounds}
	for _, o := range options {
		if o != nil {
			o(c)
		}
	}
	c.decisions = prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "ratelimit_decisions_total",
		Help: "Decisions, by policy, the limit that mattered most, outcome (allowed, denied, shadow-denied, error) and who decided.",
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
		NativeHistogramMinResetDuration: time.Hour, // as seldom as one with too many buckets begins anew
	}, []string{"policy", "source"})
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

// Observe counts a decision. It is a [core.Observer]: give it to [core.WithObserver]. It allocates
// nothing but for a new series, and what exemplars need.
func (c *Collector) Observe(ctx context.Context, o core.Observation) {
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

// fits reports whether there are labels that client_golang takes for an exemplar: it panics on others, which
// may be what a client sent.
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

// Describe is for the registry.
func (c *Collector) Describe(ch chan<- *prometheus.Desc) {
	if err := c.settings.Err(); err != nil {
		ch <- prometheus.NewInvalidDesc(err)
		return
	}
	c.decisions.Describe(ch)
	c.tokens.Describe(ch)
	c.duration.Describe(ch)
	for _, d := range storeDescs {
		ch <- d
	}
}

// Collect is for the registry.
func (c *Collector) Collect(ch chan<- prometheus.Metric) {
	c.decisions.Collect(ch)
	c.tokens.Collect(ch)
	c.duration.Collect(ch)
	for _, store := range c.settings.Stores {
		collect(ch, store)
	}
}
