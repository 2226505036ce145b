package main

import (
	"context"
	"slices"
	"sync"
	"time"

	"github.com/tokenbucket-go/ratelimit/core"
)

// metrics are the sums of the run.
type metrics struct {
	Admitted int64   `json:"admitted"`
	Denied   int64   `json:"denied"`
	Errors   int64   `json:"errors"`
	Ratio    float64 `json:"ratio"` // of those denied
	P50      float64 `json:"p50_micros"`
	P99      float64 `json:"p99_micros"`
	Since    float64 `json:"since"`
}

func (d *demo) metrics() metrics {
	d.history.mu.Lock()
	sums := d.history.sums
	m := metrics{Admitted: sums.Allowed, Denied: sums.Denied, Errors: sums.Error, Since: millis(d.history.since)}
	d.history.mu.Unlock()
	if all := m.Admitted + m.Denied + m.Errors; all > 0 {
		m.Ratio = float64(m.Denied) / float64(all)
	}
	m.P50, m.P99 = d.latency.quantiles()
	return m
}

// latency remembers how long the latest decisions took.
type latency struct {
	mu   sync.Mutex
	ring [4096]time.Duration
	n    int // ever
}

func (l *latency) add(d time.Duration) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.ring[l.n%len(l.ring)] = d
	l.n++
}

func (l *latency) clear() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.n = 0
}

// quantiles are the median and the 99th percentile, in µs.
func (l *latency) quantiles() (p50, p99 float64) {
	l.mu.Lock()
	sorted := slices.Clone(l.ring[:min(l.n, len(l.ring))])
	l.mu.Unlock()
	if len(sorted) == 0 {
		return 0, 0
	}
	slices.Sort(sorted)
	at := func(q float64) float64 { return float64(sorted[int(q*float64(len(sorted)-1))].Nanoseconds()) / 1000 }
	return at(0.5), at(0.99)
}

// timed is a store whose decisions are timed, save those that only look.
type timed struct {
	core.Store
	latency *latency
}

type looking struct{}

func (t *timed) Do(ctx context.Context, r core.Request) (core.Answer, error) {
	if ctx.Value(looking{}) != nil {
		return t.Store.Do(ctx, r)
	}
	began := time.Now()
	defer func() { t.latency.add(time.Since(began)) }()
	return t.Store.Do(ctx, r)
}
