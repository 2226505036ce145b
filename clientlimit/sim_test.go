package clientlimit_test

import (
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/tokenbucket-go/ratelimit/clientlimit"
	"github.com/tokenbucket-go/ratelimit/core"
	"github.com/tokenbucket-go/ratelimit/httplimit"
)

type simcase struct {
	name      string
	limit     core.Limit
	style     core.HeaderStyle
	clients   []int // one a process
	rtt       func(p int, r *rand.Rand) time.Duration
	d         time.Duration
	own       core.Limit
	hasOwn    bool
	change    core.Limit // after d/2
	hasChange bool
	outage    bool
}

func sim(t *testing.T, c simcase) string {
	time.Sleep(time.Duration(seed) * 370 * time.Millisecond)
	end := time.Now().Add(c.d)
	pol := func(l core.Limit) core.Policy {
		return core.Policy{Name: "provider", Headers: c.style, Limits: []core.Limit{l}}
	}
	lim := core.Must(core.NewLimiter(core.NewMemoryStore(), pol(c.limit)))
	service := limitedBy(lim)
	if c.hasChange {
		time.AfterFunc(c.d/2, func() { _ = lim.SetPolicy(pol(c.change)) })
	}
	own := core.Must(core.NewLimiter(core.NewMemoryStore(), core.Policy{Name: "own", Limits: []core.Limit{c.own}}))
	var all sync.WaitGroup
	var refused atomic.Int64
	var mu sync.Mutex
	var waits []time.Duration
	got := []float64{}
	var perProc []int
	for p, clients := range c.clients {
		var mine atomic.Int64
		r := rand.New(rand.NewPCG(uint64(p), 99))
		var rmu sync.Mutex
		sees := roundTrip(func(req *http.Request) (*http.Response, error) {
			rmu.Lock()
			d := c.rtt(p, r)
			rmu.Unlock()
			time.Sleep(d / 2)
			var res *http.Response
			var err error
			if at := c.d - time.Until(end); c.outage && at > 20*time.Second && at < 40*time.Second {
				res, err = &http.Response{StatusCode: 429, Header: http.Header{"Retry-After": {"1"}}, Body: http.NoBody, Request: req}, nil
			} else {
				res, err = service.RoundTrip(req)
			}
			if res.StatusCode == http.StatusTooManyRequests {
				refused.Add(1)
				if os.Getenv("TRACE") != "" {
					fmt.Println(p, "refused", c.d-time.Until(end))
				}
			} else if time.Now().Before(end) {
				mine.Add(1)
			}
			time.Sleep(d / 2)
			return res, err
		})
		opts := []clientlimit.Option{clientlimit.WithJitter(sequence(p + seed*10))}
		if c.hasOwn {
			opts = append(opts, clientlimit.WithLimiter(own, clientlimit.ByHost()))
		}
		client := &http.Client{Transport: clientlimit.New(sees, opts...)}
		for range clients {
			all.Go(func() {
				n := 0.0
				for time.Now().Before(end) {
					began := time.Now()
					status, err := get(t.Context(), t, client, "a")
					switch {
					case err != nil:
						time.Sleep(100 * time.Millisecond)
					case status == http.StatusOK && time.Now().Before(end):
						n++
						mu.Lock()
						waits = append(waits, time.Since(began))
						mu.Unlock()
					}
				}
				mu.Lock()
				got = append(got, n)
				mu.Unlock()
			})
		}
		defer func() { perProc = append(perProc, int(mine.Load())) }()
		_ = perProc
		procs = append(procs, &mine)
	}
	all.Wait()
	sum, squares := 0.0, 0.0
	for _, g := range got {
		sum, squares = sum+g, squares+g*g
	}
	slices.Sort(waits)
	var shares []int64
	for _, m := range procs {
		shares = append(shares, m.Load())
	}
	procs = nil
	most := float64(c.limit.MaxIn(c.d))
	if c.hasChange {
		most = float64(c.limit.MaxIn(c.d/2)) + float64(c.change.MaxIn(c.d/2)-c.change.Capacity)
	}
	return fmt.Sprintf("%-34s refused %5.2f%% (%3d) goodput %5.1f p99 %5.2fs jain %.3f shares %v", c.name,
		100*float64(refused.Load())/(sum+float64(refused.Load())), refused.Load(), 100*sum/most, waits[len(waits)*99/100].Seconds(), sum*sum/squares/float64(len(got)), shares)
}

var procs []*atomic.Int64
var seed int

func fixed(d time.Duration) func(int, *rand.Rand) time.Duration {
	return func(p int, r *rand.Rand) time.Duration { // a little noise: exponential
		return d + time.Duration(r.ExpFloat64()*float64(d)/4)
	}
}

func TestSim(t *testing.T) {
	d := 20 * time.Second
	if s, err := strconv.Atoi(os.Getenv("SECS")); err == nil {
		d = time.Duration(s) * time.Second
	}
	fifty := core.PerSecond(50)
	var cases []simcase
	rep := func(n, k int) []int { return slices.Repeat([]int{n}, k) }
	std := [][]int{{1}, {10}, {100}, rep(1, 4), rep(10, 4), rep(100, 4)}
	add := func(name string, c simcase, sizes [][]int) {
		for _, s := range sizes {
			c.name, c.clients, c.d = fmt.Sprintf("%s %dx%d", name, s[0], len(s)), s, d
			cases = append(cases, c)
		}
	}
	add("RA 0.4ms", simcase{limit: fifty, style: core.HeadersNone, rtt: fixed(400 * time.Microsecond)}, std)
	add("RA 5ms", simcase{limit: fifty, style: core.HeadersNone, rtt: fixed(5 * time.Millisecond)}, std)
	add("RA 80ms", simcase{limit: fifty, style: core.HeadersNone, rtt: fixed(80 * time.Millisecond)}, [][]int{{10}, {100}, rep(10, 4), rep(100, 4)})
	add("unequal 1..200ms", simcase{limit: fifty, style: core.HeadersNone, rtt: func(p int, r *rand.Rand) time.Duration {
		return fixed([]time.Duration{time.Millisecond, 10 * time.Millisecond, 50 * time.Millisecond, 200 * time.Millisecond}[p])(p, r)
	}}, [][]int{rep(10, 4), rep(100, 4)})
	for _, b := range []int64{1, 5, 20, 500} {
		add(fmt.Sprintf("burst %d", b), simcase{limit: fifty.WithBurst(b), style: core.HeadersNone, rtt: fixed(5 * time.Millisecond)}, [][]int{{10}, {100}, rep(10, 4)})
	}
	add("10/s burst 50", simcase{limit: core.PerSecond(10).WithBurst(50), style: core.HeadersNone, rtt: fixed(5 * time.Millisecond)}, [][]int{{10}, rep(10, 4)})
	add("500/s", simcase{limit: core.PerSecond(500), style: core.HeadersNone, rtt: fixed(5 * time.Millisecond)}, [][]int{{100}, rep(30, 4)})
	add("60/min", simcase{limit: core.PerMinute(60), style: core.HeadersNone, rtt: fixed(5 * time.Millisecond)}, [][]int{{10}, rep(10, 4)})
	add("aligned 1s", simcase{limit: fifty.WithMode(core.Aligned), style: core.HeadersNone, rtt: fixed(5 * time.Millisecond)}, [][]int{{10}, {100}, rep(10, 4)})
	win := func(n int64, d time.Duration) core.Limit {
		return core.Limit{Capacity: n, RefillRate: float64(n), RefillInterval: d, Mode: core.Aligned}
	}
	add("window 10s", simcase{limit: win(200, 10*time.Second), style: core.HeadersNone, rtt: fixed(5 * time.Millisecond)}, [][]int{{10}, rep(10, 4)})
	add("window 60s", simcase{limit: win(200, 60*time.Second), style: core.HeadersNone, rtt: fixed(5 * time.Millisecond)}, [][]int{{10}, rep(10, 4)})
	add("outage", simcase{limit: fifty, outage: true, style: core.HeadersNone, rtt: fixed(5 * time.Millisecond)}, [][]int{{10}, rep(10, 4)})
	add("halves", simcase{limit: fifty, change: core.PerSecond(25), hasChange: true, style: core.HeadersNone, rtt: fixed(5 * time.Millisecond)}, [][]int{{10}, rep(10, 4)})
	add("doubles", simcase{limit: fifty, change: core.PerSecond(100), hasChange: true, style: core.HeadersNone, rtt: fixed(5 * time.Millisecond)}, [][]int{{10}, rep(10, 4)})
	add("own RA", simcase{limit: fifty, own: fifty, hasOwn: true, style: core.HeadersNone, rtt: fixed(5 * time.Millisecond)}, std)
	add("own RL", simcase{limit: fifty, own: fifty, hasOwn: true, style: core.HeadersDraft8, rtt: fixed(5 * time.Millisecond)}, std)
	add("RL", simcase{limit: fifty, style: core.HeadersDraft8, rtt: fixed(5 * time.Millisecond)}, std)
	only := os.Getenv("ONLY")
	if s, err := strconv.Atoi(os.Getenv("SEED")); err == nil {
		seed = s
	}
	for _, c := range cases {
		if only != "" && !match(only, c.name) {
			continue
		}
		if c.own.Capacity == 0 {
			c.own = fifty
		}
		began := time.Now()
		inBubble(t, func(t *testing.T) { fmt.Print(sim(t, c)) })
		fmt.Printf(" [%v]\n", time.Since(began).Round(time.Millisecond))
	}
}

func match(pattern, s string) bool {
	for _, p := range strings.Split(pattern, "|") {
		if strings.HasPrefix(s, p) {
			return true
		}
	}
	return false
}
func limitedBy(l *core.Limiter) handled {
	return handled{httplimit.New(l, httplimit.Global("all"))(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		_, _ = io.WriteString(w, "here you are")
	}))}
}
