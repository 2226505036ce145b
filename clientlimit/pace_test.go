package clientlimit_test

import (
	"math/rand/v2"
	"net/http"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tokenbucket-go/ratelimit/clientlimit"
	"github.com/tokenbucket-go/ratelimit/core"
)

// load is what clients got of a service: requests denied, in percent; served, in
// percent of what the limit admits; and how long the slowest one took, in
// seconds.
type load struct{ denied, goodput, slowest float64 }

// play has clients of several processes send requests as fast as they can, for a
// time.
func play(t *testing.T, service http.RoundTripper, limit core.Limit, clients, processes int, d time.Duration, options ...clientlimit.Option) load {
	t.Helper()
	end := time.Now().Add(d)
	var sent, refused, served, slowest atomic.Int64
	way := roundTrip(func(r *http.Request) (*http.Response, error) {
		time.Sleep(time.Millisecond + rand.N(4*time.Millisecond))
		sent.Add(1)
		res, err := service.RoundTrip(r)
		if res.StatusCode == http.StatusTooManyRequests {
			refused.Add(1)
		}
		time.Sleep(time.Millisecond)
		return res, err
	})
	var all sync.WaitGroup
	for range processes {
		client := &http.Client{Transport: clientlimit.New(way, options...)}
		for range clients {
			all.Go(func() {
				for time.Now().Before(end) {
					began := time.Now()
					status, err := get(t.Context(), t, client, "a")
					slowest.Store(max(slowest.Load(), int64(time.Since(began))))
					switch {
					case err != nil: // it was not sent: see clientlimit.Error
						time.Sleep(time.Second)
					case status == http.StatusOK && time.Now().Before(end):
						served.Add(1)
					}
				}
			})
		}
	}
	all.Wait()
	return load{
		denied:  100 * float64(refused.Load()) / float64(sent.Load()),
		goodput: 100 * float64(served.Load()) / float64(limit.MaxIn(d)),
		slowest: time.Duration(slowest.Load()).Seconds(),
	}
}

// Clients that know nothing of a limit share it alike from what the answers call
// left, in whatever fields, and from Retry-After alone. go test -v prints the
// table of docs/client.md.
func TestClientsKeepToALimit(t *testing.T) {
	limit := core.PerSecond(50)
	for _, c := range []struct {
		name      string
		style     core.HeaderStyle
		processes int
		most      float64 // denied, in percent
		options   func() []clientlimit.Option
	}{
		{"RateLimit", core.HeadersDraft8, 1, 0.5, nil},
		{"RateLimit-Remaining", core.HeadersDraft6, 1, 0.5, nil},
		{"X-RateLimit-Remaining", core.HeadersLegacy, 1, 0.5, nil},
		{"Retry-After alone", core.HeadersNone, 1, 2, nil},
		{"RateLimit, 4 processes", core.HeadersDraft8, 4, 3, nil},
		{"Retry-After alone, 4 processes", core.HeadersNone, 4, 5, nil},
		{"a limiter that all share, 4 processes", core.HeadersNone, 4, 1, func() []clientlimit.Option {
			return []clientlimit.Option{clientlimit.WithLimiter(own(limit), clientlimit.ByHost())}
		}},
		{"the same with units", core.HeadersNone, 4, 1, func() []clientlimit.Option {
			return []clientlimit.Option{clientlimit.WithLimiter(own(limit, core.PerSecond(50_000).WithUnit("tokens").WithName("tokens")), clientlimit.ByHost()),
				clientlimit.WithUnits(func(*http.Request) (core.Units, error) { return core.Units{"tokens": 1000}, nil })}
		}},
	} {
		synctest.Test(t, func(t *testing.T) {
			var options []clientlimit.Option
			if c.options != nil {
				options = c.options()
			}
			got := play(t, limited(c.style, limit), limit, 10, c.processes, time.Minute, options...)
			t.Logf("| %s | %.1f %% | %.1f %% | %.1f s |", c.name, got.denied, got.goodput, got.slowest)
			if got.denied > c.most || got.goodput < 90 || got.goodput > 100 {
				t.Errorf("%s: %+v, want %v %% denied at most and a goodput of 90 %% at least", c.name, got, c.most)
			}
		})
	}
}

// Limits for which whole seconds are too coarse, and those with a window, are
// learned from refusals and from what is left.
func TestClientsKeepToOtherLimits(t *testing.T) {
	small, window := core.PerSecond(50).WithBurst(5), core.PerMinute(200).WithMode(core.Aligned)
	for name, c := range map[string]struct {
		limit           core.Limit
		style           core.HeaderStyle
		processes       int
		goodput, denied float64
	}{
		"small bursts, Retry-After":       {small, core.HeadersNone, 1, 30, 2},
		"small bursts, RateLimit":         {small, core.HeadersDraft8, 1, 40, 1},
		"large bursts, RateLimit":         {core.PerSecond(50).WithBurst(500), core.HeadersDraft8, 1, 80, 1},
		"a large limit, RateLimit":        {core.PerSecond(1000), core.HeadersDraft8, 1, 90, 1},
		"windows of 1 s, Retry-After":     {core.PerSecond(50).WithMode(core.Aligned), core.HeadersNone, 1, 65, 2},
		"windows, X-RateLimit":            {window, core.HeadersLegacy, 1, 60, 1}, // of 66: MaxIn has a third window
		"a minute, RateLimit":             {core.PerMinute(60), core.HeadersDraft8, 1, 60, 1},
		"a minute, Retry-After":           {core.PerMinute(60), core.HeadersNone, 1, 90, 20},
		"a minute, RateLimit, 4 of those": {core.PerMinute(60), core.HeadersDraft8, 4, 90, 20},
	} {
		synctest.Test(t, func(t *testing.T) {
			time.Sleep(time.Until(time.Now().Truncate(time.Minute).Add(time.Minute)))
			got := play(t, limited(c.style, c.limit), c.limit, 10, c.processes, 2*time.Minute)
			t.Logf("%s: %+v", name, got)
			if got.goodput < c.goodput || got.goodput > 100 || got.denied > c.denied {
				t.Errorf("%s: %+v, want %v %% denied at most and a goodput of %v %% at least", name, got, c.denied, c.goodput)
			}
		})
	}
}

// Times with few requests say nothing of the rate: batches take as long as the
// limit needs for them, or little more.
func TestTimesWithFewRequestsDoNotCount(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		client := &http.Client{Transport: clientlimit.New(limited(core.HeadersNone, core.PerSecond(50)))}
		for range 600 {
			_, _ = get(t.Context(), t, client, "a")
			time.Sleep(time.Second)
		}
		for i := range 5 {
			began := time.Now()
			atOnce(20, func() {
				for range 25 {
					if status, err := get(t.Context(), t, client, "a"); err != nil || status != http.StatusOK {
						t.Error(status, err)
					}
				}
			})
			if took := time.Since(began); took > 20*time.Second {
				t.Errorf("batch %d of 500 took %v, want hardly more than the 9 s that the limit needs", i, took)
			}
			time.Sleep(3 * time.Hour)
		}
	})
}

// Requests that come one after the other take as long as the answers say.
func TestPacesThatAnswersSay(t *testing.T) {
	left := func(n, seconds string) reply {
		return say(200, "X-RateLimit-Remaining", n, "X-RateLimit-Reset", seconds)
	}
	thousand := clientlimit.WithUnits(func(*http.Request) (core.Units, error) { return core.Units{"tokens": 1000}, nil })
	for rule, c := range map[string]struct {
		answer      func(int, *http.Request) *http.Response
		requests    int
		least, most time.Duration
		option      clientlimit.Option
	}{
		// Some 10 s for each of 9 requests, and not a pause of 3000 s.
		"a pause after one request says little of the rate": {
			but(say(200), map[int]reply{2: say(429, "Retry-After", "3000")}),
			10, 3000 * time.Second, 3120 * time.Second, clientlimit.WithMaxWait(time.Hour),
		},
		// Some 10 s for the one after the pause, and then 70 s at the rate of
		// 5,000 an hour.
		"what is left replaces what was measured before": {
			but(left("5000", "3600"), map[int]reply{2: say(429, "Retry-After", "30")}),
			100, 100 * time.Second, 120 * time.Second, nil,
		},
		// The answers may be those of a proxy in front. The first two go at once.
		"an answer without fields changes nothing": {
			but(say(http.StatusBadGateway), map[int]reply{1: left("10", "100")}), 5, 30 * time.Second, 50 * time.Second, nil,
		},
		"the next request goes at the reset, though nobody says that it is": {
			but(say(200), map[int]reply{1: left("1", "20")}), 3, 20 * time.Second, 20 * time.Second, nil,
		},
		// Enough for 10 requests in 100 s.
		"what is left of tokens is spread by WithUnits": {
			but(say(200, "x-ratelimit-remaining-requests", "1000", "x-ratelimit-reset-requests", "100s",
				"x-ratelimit-remaining-tokens", "10000", "x-ratelimit-reset-tokens", "100s"), nil),
			5, 30 * time.Second, 50 * time.Second, thousand,
		},
	} {
		t.Run(rule, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := newService(c.answer)
				client := &http.Client{Transport: clientlimit.New(s, c.option)}
				for range c.requests {
					if _, err := get(t.Context(), t, client, "a"); err != nil {
						t.Error(err)
					}
				}
				if took := time.Since(s.start); took < c.least || took > c.most {
					t.Errorf("%d requests took %v: want %v to %v", c.requests, took, c.least, c.most)
				}
			})
		})
	}
}

// Nothing left and a second until the reset say little of a limit of 10,000 a
// second: it is in use again when the second is over.
func TestALargeLimitThatWasEmptyOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		left := func(calls string) reply {
			return say(200, "RateLimit", `"a";t=1;r=`+calls, "RateLimit-Policy", `"a";q=10000;w=1`)
		}
		answer := but(left("9000"), map[int]reply{1000: left("0")})
		s := newService(func(n int, r *http.Request) *http.Response {
			time.Sleep(10 * time.Millisecond)
			return answer(n, r)
		})
		client := &http.Client{Transport: clientlimit.New(s)}
		atOnce(100, func() {
			for range 100 {
				_, _ = get(t.Context(), t, client, "a")
			}
		})
		if took := time.Since(s.start); took > 10*time.Second {
			t.Errorf("10,000 requests took %v: want little more than the second that they take, and the second of the pause", took)
		}
	})
}

// Of many requests that come at once one asks first, and then all keep to what
// is left. What answers said long ago, or before a window ended, no longer
// counts. All are served: none is turned away because the rate is low at first,
// or after a refusal.
func TestManyRequestsAtOnce(t *testing.T) {
	hour := clientlimit.WithMaxWait(time.Hour)
	for _, c := range []struct {
		style  core.HeaderStyle
		limit  core.Limit
		n      int
		option clientlimit.Option
		most   int64 // refused, of 2n
	}{
		{core.HeadersDraft8, core.PerMinute(60), 300, hour, 0},
		{core.HeadersDraft8, core.PerMinute(60).WithMode(core.Aligned), 300, hour, 5},
		{core.HeadersDraft8, core.PerSecond(50), 300, hour, 150},
		{core.HeadersDraft8, core.PerSecond(50), 1000, nil, 2000},
		{core.HeadersNone, core.PerSecond(50), 1000, nil, 2000},
	} {
		synctest.Test(t, func(t *testing.T) {
			service := limited(c.style, c.limit)
			var refused atomic.Int64
			client := &http.Client{Transport: clientlimit.New(roundTrip(func(r *http.Request) (*http.Response, error) {
				time.Sleep(50 * time.Millisecond)
				res, err := service.RoundTrip(r)
				if res.StatusCode == http.StatusTooManyRequests {
					refused.Add(1)
				}
				return res, err
			}), c.option)}
			for _, idle := range []time.Duration{0, 48 * time.Hour} {
				time.Sleep(idle)
				atOnce(c.n, func() {
					if status, err := get(t.Context(), t, client, "a"); err != nil || status != http.StatusOK {
						t.Error(c.limit, c.style, status, err)
					}
				})
			}
			if n := refused.Load(); n > c.most {
				t.Errorf("%v, %v: %d requests were refused, want %d at most", c.limit, c.style, n, c.most)
			}
		})
	}
}
