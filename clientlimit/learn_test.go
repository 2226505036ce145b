package clientlimit_test

import (
	"fmt"
	"math/rand/v2"
	"net/http"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/tokenbucket-go/ratelimit/clientlimit"
	"github.com/tokenbucket-go/ratelimit/core"
)

// load is what clients got of a service.
type load struct{ served, refused, goodput, jain float64 }

// path is how long the requests of a process take to the service.
type path func(process int) func() time.Duration

// apart returns paths, each a little longer than that of the process before, so
// that no two requests come at one instant.
func apart(by time.Duration) path {
	return func(process int) func() time.Duration {
		return func() time.Duration { return 5*time.Millisecond + time.Duration(process)*by }
	}
}

// varying returns paths that take as long again at most, by turns.
func varying(least time.Duration) path {
	return func(process int) func() time.Duration {
		more := sequence(100 + process)
		return func() time.Duration { return least + more(least) }
	}
}

// play has clients in several processes send requests as fast as they can, for
// a time. Goodput is their share of what limit admits. Nothing is by chance:
// each process has a sequence of its own for jitter.
func play(t *testing.T, service http.RoundTripper, limit core.Limit, clients, processes int, d time.Duration, way path, options ...clientlimit.Option) load {
	t.Helper()
	end := time.Now().Add(d)
	got := make([]float64, clients*processes)
	var all sync.WaitGroup
	var refused atomic.Int64
	for p := range processes {
		takes := way(p)
		sees := roundTrip(func(r *http.Request) (*http.Response, error) {
			time.Sleep(takes())
			res, err := service.RoundTrip(r)
			if res.StatusCode == http.StatusTooManyRequests {
				refused.Add(1)
			}
			return res, err
		})
		client := &http.Client{Transport: clientlimit.New(sees, append(options, clientlimit.WithJitter(sequence(p)))...)}
		for c := range clients {
			all.Go(func() {
				for time.Now().Before(end) {
					status, err := get(t.Context(), t, client, "a")
					switch {
					case err != nil: // it was not sent: see clientlimit.Error
						time.Sleep(time.Second)
					case status == http.StatusOK && time.Now().Before(end):
						got[p*clients+c]++
					}
				}
			})
		}
	}
	all.Wait()
	sum, squares := 0.0, 0.0
	for _, g := range got {
		sum, squares = sum+g, squares+g*g
	}
	return load{sum, float64(refused.Load()), sum / float64(limit.MaxIn(d)), sum * sum / squares / float64(len(got))}
}

// sequence returns a jitter that is the same each time.
func sequence(seed int) func(most time.Duration) time.Duration {
	var mu sync.Mutex
	r := rand.New(rand.NewPCG(uint64(seed), 0))
	return func(most time.Duration) time.Duration {
		mu.Lock()
		defer mu.Unlock()
		return time.Duration(r.Int64N(int64(most)))
	}
}

type roundTrip func(*http.Request) (*http.Response, error)

func (f roundTrip) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

// Clients that know nothing of a limit learn it from what the answers say is
// left, in whatever fields, and share it alike. Nothing is refused.
func TestClientsLearnTheRate(t *testing.T) {
	limit := core.PerSecond(50)
	for name, style := range map[string]core.HeaderStyle{"X-RateLimit": core.HeadersLegacy, "drafts 8 to 11": core.HeadersDraft8, "draft 6": core.HeadersDraft6} {
		for _, n := range []struct{ clients, processes int }{{1, 1}, {10, 1}, {100, 1}, {1, 4}, {10, 4}} {
			t.Run(fmt.Sprintf("%s/%dx%d", name, n.clients, n.processes), func(t *testing.T) {
				inBubble(t, func(t *testing.T) {
					got := play(t, limited(t, style, limit), limit, n.clients, n.processes, 30*time.Second, apart(37*time.Microsecond))
					got.want(t, load{goodput: 0.985, jain: 0.99})
				})
			})
		}
	}
}

// A thousand requests come at once to a service that takes 20 s for them, or
// 10 s, and all are served: none is turned away because the rate is low at
// first, or after a refusal.
func TestManyRequestsAtOnceAreServed(t *testing.T) {
	for limit, way := range map[core.Limit]time.Duration{core.PerSecond(50).WithBurst(5): time.Millisecond, core.PerSecond(100): 25 * time.Millisecond, core.PerSecond(500): 25 * time.Millisecond} {
		inBubble(t, func(t *testing.T) {
			service, takes := limited(t, core.HeadersDraft8, limit), varying(way)(0)
			client := &http.Client{Transport: clientlimit.New(roundTrip(func(r *http.Request) (*http.Response, error) {
				time.Sleep(takes())
				return service.RoundTrip(r)
			}), clientlimit.WithJitter(sequence(0)))}
			var all sync.WaitGroup
			var lost atomic.Int64
			for range 1000 {
				all.Go(func() {
					if status, err := get(t.Context(), t, client, "a"); err != nil || status != http.StatusOK {
						lost.Add(1)
					}
				})
				time.Sleep(20 * time.Microsecond)
			}
			if all.Wait(); lost.Load() > 0 {
				t.Errorf("%v: %d of 1000 requests were not served", limit, lost.Load())
			}
		})
	}
}

// What answers said days ago no longer counts: of many requests at once one asks
// first, and then all keep to what is left.
func TestAnIdleClientAsksFirst(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		service := limited(t, core.HeadersDraft8, core.PerMinute(60))
		var refused atomic.Int64
		client := &http.Client{Transport: clientlimit.New(roundTrip(func(r *http.Request) (*http.Response, error) {
			time.Sleep(50 * time.Millisecond)
			res, err := service.RoundTrip(r)
			if res.StatusCode == http.StatusTooManyRequests {
				refused.Add(1)
			}
			return res, err
		}), clientlimit.WithMaxWait(time.Hour))}
		many := func(clients, requests int) {
			var all sync.WaitGroup
			for range clients {
				all.Go(func() {
					for range requests {
						if status, err := get(t.Context(), t, client, "a"); err != nil || status != http.StatusOK {
							t.Error(status, err)
						}
					}
				})
			}
			all.Wait()
		}
		many(1, 1000)
		time.Sleep(48 * time.Hour)
		many(300, 1)
		if n := refused.Load(); n > 0 {
			t.Errorf("%d requests were refused, want none", n)
		}
	})
}

// From Retry-After alone they learn it too. Some requests are refused: at least
// 95 % fewer than with backoff, or one in a hundred. What processes get alike
// takes them minutes.
func TestClientsLearnTheRateFromRefusals(t *testing.T) {
	limit := core.PerSecond(50)
	for _, c := range []struct {
		clients, processes int
		want               load // refused is a share
	}{
		{1, 1, load{refused: 0.004, goodput: 0.98, jain: 1}},
		{10, 1, load{refused: 0.0067, goodput: 0.98, jain: 0.99}},
		{100, 1, load{refused: 0.01, goodput: 0.98, jain: 0.99}},
		{1, 4, load{refused: 0.012, goodput: 0.98, jain: 0.93}},
		{10, 4, load{refused: 0.019, goodput: 0.98, jain: 0.93}},
		{100, 4, load{refused: 0.019, goodput: 0.98, jain: 0.93}},
	} {
		t.Run(fmt.Sprintf("%dx%d", c.clients, c.processes), func(t *testing.T) {
			inBubble(t, func(t *testing.T) {
				play(t, limited(t, core.HeadersNone, limit), limit, c.clients, c.processes, 4*time.Minute, varying(time.Millisecond)).want(t, c.want)
			})
		})
	}
}

// want fails the test if a load is worse than another one.
func (got load) want(t *testing.T, least load) {
	t.Helper()
	if got.goodput < least.goodput || got.goodput > 1 {
		t.Errorf("goodput %.3f, want from %.2f to 1: the clients use what the limit admits", got.goodput, least.goodput)
	}
	if share := got.refused / (got.served + got.refused); share > least.refused {
		t.Errorf("%.2f %% of the requests were refused, want %.2f %% at most", 100*share, 100*least.refused)
	}
	if got.jain < least.jain {
		t.Errorf("Jain's index of fairness is %.3f, want at least %.2f", got.jain, least.jain)
	}
}

// A limit that becomes half or twice as much is learned again, and so is one
// after a time in which all was refused.
func TestClientsLearnALimitThatChanges(t *testing.T) {
	const half = 2 * time.Minute
	limit, none := core.PerSecond(50), core.Limit{}
	for name, c := range map[string]struct {
		then    core.Limit
		down    time.Duration // none: how long
		goodput float64
	}{
		"half": {core.PerSecond(25), 0, 0.97}, "twice": {core.PerSecond(100), 0, 0.9}, "nothing for 20 s": {none, 20 * time.Second, 0.85},
	} {
		for _, processes := range []int{1, 4} {
			inBubble(t, func(t *testing.T) {
				policy := core.Policy{Name: "provider", Headers: core.HeadersNone, Limits: []core.Limit{limit}}
				l := core.Must(core.NewLimiter(core.NewMemoryStore(), policy))
				admits := limit.MaxIn(2 * half)
				var closed atomic.Bool
				if c.then != none {
					admits = limit.MaxIn(half) + c.then.MaxIn(half) - c.then.Capacity
				}
				time.AfterFunc(half, func() {
					if closed.Store(c.then == none); c.then != none {
						_ = l.SetPolicy(core.Policy{Name: "provider", Headers: core.HeadersNone, Limits: []core.Limit{c.then}})
					}
				})
				time.AfterFunc(half+c.down, func() { closed.Store(false) })
				service := limitedBy(l)
				got := play(t, roundTrip(func(r *http.Request) (*http.Response, error) {
					if closed.Load() {
						return &http.Response{StatusCode: http.StatusTooManyRequests, Header: http.Header{"Retry-After": {"1"}}, Body: http.NoBody}, nil
					}
					return service.RoundTrip(r)
				}), limit, 10, processes, 2*half, varying(time.Millisecond))
				if goodput := got.served / float64(admits); goodput < c.goodput {
					t.Errorf("%s, %d processes: goodput %.3f, want at least %.2f", name, processes, goodput, c.goodput)
				}
			})
		}
	}
}

// Times without requests say nothing of a rate: each hour's batch takes as long
// as the first.
func TestBatchesOfAnHour(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		client := &http.Client{Transport: clientlimit.New(limited(t, core.HeadersNone, core.PerSecond(50)), clientlimit.WithJitter(sequence(1)))}
		for hour := range 5 {
			began := time.Now()
			var all sync.WaitGroup
			for range 20 {
				all.Go(func() {
					for range 25 {
						if status, err := get(t.Context(), t, client, "a"); err != nil || status != http.StatusOK {
							t.Error(status, err)
						}
					}
				})
			}
			all.Wait()
			if took := time.Since(began); took > 15*time.Second {
				t.Errorf("batch %d of 500 took %v, want hardly more than the 9 s that the limit needs", hour, took)
			}
			time.Sleep(time.Hour)
		}
	})
}

// A bucket that is much smaller than a second's requests is learned too. It has
// less room for accidents: see docs/client.md.
func TestClientsLearnTheRateOfASmallBucket(t *testing.T) {
	limit := core.PerSecond(50).WithBurst(5)
	for processes, goodput := range map[int]float64{1: 0.88, 4: 0.88} {
		for _, style := range []core.HeaderStyle{core.HeadersLegacy, core.HeadersDraft8} {
			inBubble(t, func(t *testing.T) {
				if got := play(t, limited(t, style, limit), limit, 10, processes, time.Minute, apart(37*time.Microsecond)); got.goodput < goodput || got.goodput > 1 || got.jain < 0.85 {
					t.Errorf("%d processes and fields of style %v: goodput %.3f and fairness %.3f, want from %.2f to 1, and 0.85", processes, style, got.goodput, got.jain, goodput)
				}
			})
		}
	}
}

// From Retry-After alone, what a bucket that is smaller, or a window of a second
// can't save costs with each refusal: see docs/client.md.
func TestClientsLearnFromRefusalsWhatCannotBeSaved(t *testing.T) {
	for name, c := range map[string]struct {
		limit   core.Limit
		goodput float64
	}{
		"bursts of 5":         {core.PerSecond(50).WithBurst(5), 0.8},
		"bursts of 20":        {core.PerSecond(50).WithBurst(20), 0.8},
		"windows of a second": {core.PerSecond(50).WithMode(core.Aligned), 0.7},
	} {
		for _, processes := range []int{1, 4} {
			inBubble(t, func(t *testing.T) {
				if got := play(t, limited(t, core.HeadersNone, c.limit), c.limit, 10, processes, 4*time.Minute, varying(5*time.Millisecond)); got.goodput < c.goodput || got.goodput > 1 {
					t.Errorf("%s, %d processes: goodput %.3f, want from %.2f to 1", name, processes, got.goodput, c.goodput)
				}
			})
		}
	}
}

// Of limits that begin anew at each window, clients spread what is left over it.
// Nothing is refused, and each window loses the last two seconds or so: whole
// seconds don't say when it ends.
func TestClientsSpreadWindows(t *testing.T) {
	for window, goodput := range map[time.Duration]float64{10 * time.Second: 0.88, time.Minute: 0.96, time.Hour: 0.99} {
		for _, style := range []core.HeaderStyle{core.HeadersLegacy, core.HeadersDraft8} {
			inBubble(t, func(t *testing.T) {
				const windows = 3
				time.Sleep(time.Until(time.Now().Truncate(window).Add(window)))
				limit := core.Limit{Capacity: 200, RefillRate: 200, RefillInterval: window, Mode: core.Aligned}
				got := play(t, limited(t, style, limit), limit, 10, 1, windows*window, apart(0))
				if share := got.served / windows / float64(limit.Capacity); share < goodput || share > 1 || got.refused > 0 {
					t.Errorf("windows of %v, fields of style %v: %.3f of the limit and %.0f refused, want from %.2f to 1, and none", window, style, share, got.refused, goodput)
				}
			})
		}
	}
}

// One answer in three, or in ten, comes from a proxy in front of the service that
// says nothing of its limit. The window is spread all the same.
func TestClientsSpreadWindowsBetweenOtherAnswers(t *testing.T) {
	for _, nth := range []int64{3, 10} {
		inBubble(t, func(t *testing.T) {
			const windows = 3
			time.Sleep(time.Until(time.Now().Truncate(time.Minute).Add(time.Minute)))
			limit := core.Limit{Capacity: 200, RefillRate: 200, RefillInterval: time.Minute, Mode: core.Aligned}
			service := limited(t, core.HeadersLegacy, limit)
			var n atomic.Int64
			got := play(t, roundTrip(func(r *http.Request) (*http.Response, error) {
				if n.Add(1)%nth == 0 {
					return respond(http.StatusBadGateway), nil
				}
				return service.RoundTrip(r)
			}), limit, 10, 1, windows*time.Minute, apart(0))
			if share := got.served / windows / float64(limit.Capacity); share < 0.9 || share > 1 || got.refused > 0 {
				t.Errorf("one of %d answers is from a proxy: %.3f of the limit and %.0f refused, want from 0.9 to 1, and none", nth, share, got.refused)
			}
		})
	}
}

// With a limiter that knows the limit no request is refused, and none of the
// limit is lost, if all have the same way to the service.
func TestALimiterPacesExactly(t *testing.T) {
	for _, burst := range []int64{1, 5, 50} {
		for _, style := range []core.HeaderStyle{core.HeadersNone, core.HeadersLegacy, core.HeadersDraft8} {
			inBubble(t, func(t *testing.T) {
				limit := core.PerSecond(50).WithBurst(burst)
				own := core.Must(core.NewLimiter(core.NewMemoryStore(), core.Policy{Name: "own", Limits: []core.Limit{limit}}))
				got := play(t, limited(t, style, limit), limit, 10, 4, 10*time.Second, apart(0), clientlimit.WithLimiter(own, clientlimit.ByHost()))
				if got.refused > 0 || got.goodput < 0.98 || got.jain < 0.98 {
					t.Errorf("with a burst of %d and fields of style %v: %+v, want no refusals, and goodput and fairness of at least 0.98", burst, style, got)
				}
			})
		}
	}
}

// If the ways to the service vary, a request that comes too early is refused
// now and then. None of the limit is lost by that.
func TestALimiterPacesOverAnyPath(t *testing.T) {
	limit := core.PerSecond(50)
	for _, n := range []struct{ clients, processes int }{{1, 1}, {10, 1}, {100, 1}, {1, 4}, {10, 4}} {
		inBubble(t, func(t *testing.T) {
			own := core.Must(core.NewLimiter(core.NewMemoryStore(), core.Policy{Name: "own", Limits: []core.Limit{limit}}))
			got := play(t, limited(t, core.HeadersNone, limit), limit, n.clients, n.processes, 30*time.Second, varying(5*time.Millisecond), clientlimit.WithLimiter(own, clientlimit.ByHost()))
			got.want(t, load{refused: 0.002, goodput: 0.99, jain: 0.99})
		})
	}
}
