package main

import (
	"cmp"
	"context"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/tokenbucket-go/ratelimit/core"
	"github.com/tokenbucket-go/ratelimit/core/store"
)

const (
	kept       = 100         // requests that a page gets when it is opened
	told       = 200         // that pages are told of one by one, of those that came at once
	maxKeys    = 1000        // whose buckets may be shown
	remembered = time.Minute // how long a bucket is shown after its last request
	binWidth   = 100         // ms of the timeline that are counted together
	binsKept   = 320         // a little more than the 30 s that pages show
)

// request is what the pages are told of one.
type request struct {
	ID        int64       `json:"id"`
	At        float64     `json:"at"` // ms since 1970
	Framework string      `json:"framework"`
	User      string      `json:"user"`
	Key       string      `json:"key"`
	Replica   string      `json:"replica,omitempty"`
	Modes     []bool      `json:"modes,omitempty"` // what each mode decides: see comparison
	Status    int         `json:"status"`
	Allowed   bool        `json:"allowed"`
	Micros    float64     `json:"micros"`
	Headers   [][2]string `json:"headers"`
	Cost      int64       `json:"cost"`
	Source    string      `json:"source"`
}

func (r *request) denied() bool { return r.Status == 429 }

func (r *request) bin() int64 { return int64(r.At / binWidth) }

// counts are requests by what became of them.
type counts struct {
	Allowed int64 `json:"allowed"`
	Denied  int64 `json:"denied"`
	Error   int64 `json:"error"`
}

func (c counts) with(r *request) counts {
	switch {
	case r.Allowed:
		c.Allowed++
	case r.denied():
		c.Denied++
	default:
		c.Error++
	}
	return c
}

func (c counts) plus(other counts) counts {
	return counts{c.Allowed + other.Allowed, c.Denied + other.Denied, c.Error + other.Error}
}

// bins are counts by tenth of a second since 1970.
type bins map[int64]counts

// history is the requests of the run.
type history struct {
	mu      sync.Mutex // guards all below
	id      int64      // of the latest request; it never restarts, so that pages tell old from new
	fresh   []request  // not told yet, at most told
	dropped bins       // and those that are only counted
	last    []request  // told, the latest, at most kept
	past    bins       // told
	sums    counts
	since   time.Time
	keys    map[string]used
}

// used is who used a key, and when.
type used struct {
	user   string
	at     time.Time
	denied time.Time
}

// add notes a request. visited tells whether its bucket is one of those to show.
func (h *history) add(r request, visited bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.sums = h.sums.with(&r)
	h.id++
	r.ID = h.id
	h.fresh = append(h.fresh, r)
	if len(h.fresh) > told {
		i := expendable(h.fresh)
		gone := h.fresh[i]
		h.dropped[gone.bin()] = h.dropped[gone.bin()].with(&gone)
		h.fresh = slices.Delete(h.fresh, i, i+1)
	}
	u, known := h.keys[r.Key]
	if visited && r.Key != "" && (known || len(h.keys) < maxKeys) {
		u.user, u.at = r.User, time.Now()
		if r.denied() {
			u.denied = u.at
		}
		h.keys[r.Key] = u
	}
}

// expendable is which request pages miss least: in a flood most are denied, and those that passed are the news.
func expendable(list []request) int {
	if i := slices.IndexFunc(list, func(r request) bool { return r.denied() }); i >= 0 {
		return i
	}
	return max(0, slices.IndexFunc(list, func(r request) bool { return !r.Allowed }))
}

// news takes what was not told yet: it counts as told then.
func (h *history) news() (fresh []request, dropped bins) {
	h.mu.Lock()
	defer h.mu.Unlock()
	fresh, dropped = h.fresh, h.dropped
	h.fresh, h.dropped = nil, bins{}
	h.last = append(h.last, fresh...)
	h.last = slices.Clone(h.last[max(0, len(h.last)-kept):])
	for i := range fresh {
		h.past[fresh[i].bin()] = h.past[fresh[i].bin()].with(&fresh[i])
	}
	for bin, c := range dropped {
		h.past[bin] = h.past[bin].plus(c)
	}
	oldest := time.Now().UnixMilli()/binWidth - binsKept
	maps.DeleteFunc(h.past, func(bin int64, _ counts) bool { return bin < oldest })
	return fresh, dropped
}

// latest is what a page begins with: requests, and the counts of the timeline.
func (h *history) latest() ([]request, bins) {
	h.mu.Lock()
	defer h.mu.Unlock()
	return append([]request{}, h.last...), maps.Clone(h.past)
}

// recent are the keys that were used lately, with their users: first those that were denied last, then those
// that were used last. Within two seconds their names decide, so that what is shown does not jump.
func (h *history) recent() (keys, owners []string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	maps.DeleteFunc(h.keys, func(_ string, u used) bool { return time.Since(u.at) >= remembered })
	keys = slices.SortedFunc(maps.Keys(h.keys), func(a, b string) int {
		x, y := h.keys[a], h.keys[b]
		return cmp.Or(y.denied.Truncate(2*time.Second).Compare(x.denied.Truncate(2*time.Second)),
			y.at.Truncate(2*time.Second).Compare(x.at.Truncate(2*time.Second)), cmp.Compare(a, b))
	})
	for _, k := range keys {
		owners = append(owners, h.keys[k].user)
	}
	return keys, owners
}

// forgetKeys drops the buckets in use: under another kind of key they are no longer asked for.
func (h *history) forgetKeys() {
	h.mu.Lock()
	defer h.mu.Unlock()
	clear(h.keys)
}

// clear begins anew.
func (h *history) clear() {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.last, h.fresh, h.dropped, h.past = nil, nil, bins{}, bins{}
	h.sums = counts{}
	h.since, h.keys = time.Now(), make(map[string]used)
}

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

func (t *timed) Do(ctx context.Context, r store.Request) (store.Answer, error) {
	if ctx.Value(looking{}) != nil {
		return t.Store.Do(ctx, r)
	}
	began := time.Now()
	defer func() { t.latency.add(time.Since(began)) }()
	return t.Store.Do(ctx, r)
}
