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
			if took := time.Since(began); took > 20*time.Second {
				t.Errorf("batch %d of 500 took %v, want hardly more than the 9 s that the limit needs", i, took)
			}
			time.Sleep(3 * time.Hour)
		}
	})
}

// A refusal with a long pause, after one request, says little of the rate: the
// service is not called once in each of such pauses.
func TestAMeasuredRateIsNotTooLow(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newService(func(n int, _ *http.Request) *http.Response {
			if n == 2 {
				return respond(429, "Retry-After", "3000")
			}
			return respond(200)
		})
		client := &http.Client{Transport: clientlimit.New(s, clientlimit.WithMaxWait(time.Hour))}
		for range 10 {
			if _, err := get(t.Context(), t, client, "a"); err != nil {
				t.Error(err)
			}
		}
		if took := time.Since(s.start) - 3000*time.Second; took > 2*time.Minute {
			t.Errorf("9 requests after the pause took %v: want some 10 s for each", took)
		}
	})
}

// What an answer calls left replaces what was measured by refusals before.
func TestWhatIsLeftReplacesWhatWasMeasured(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newService(func(n int, _ *http.Request) *http.Response {
			if n == 2 {
				return respond(429, "Retry-After", "30")
			}
			return respond(200, "X-RateLimit-Remaining", "5000", "X-RateLimit-Reset", "3600")
		})
		client := &http.Client{Transport: clientlimit.New(s)}
		for range 100 {
			_, _ = get(t.Context(), t, client, "a")
		}
		if took := time.Since(s.start); took > 150*time.Second {
			t.Errorf("100 requests took %v: want the pause of 30 s, a slow one, and 70 s at the rate of 5,000 an hour", took)
		}
	})
}

// An answer that says nothing of limits, such as one of a proxy in front, changes
// no pace.
func TestAnAnswerWithoutFieldsChangesNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newService(func(n int, _ *http.Request) *http.Response {
			if n > 1 {
				return respond(http.StatusBadGateway)
			}
			return respond(200, "X-RateLimit-Remaining", "10", "X-RateLimit-Reset", "100")
		})
		client := &http.Client{Transport: clientlimit.New(s)}
		for range 5 {
			_, _ = get(t.Context(), t, client, "a")
		}
		if took := time.Since(s.start); took < 30*time.Second || took > 50*time.Second {
			t.Errorf("5 requests of 10 in 100 s took %v: want some 10 s for each, but for the first two", took)
		}
	})
}

// The next request goes when the limit is reset, also if nobody says that it is.
func TestTheNextRequestGoesAtTheReset(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newService(func(n int, _ *http.Request) *http.Response {
			if n > 1 {
				return respond(200)
			}
			return respond(200, "X-RateLimit-Remaining", "1", "X-RateLimit-Reset", "20")
		})
		client := &http.Client{Transport: clientlimit.New(s)}
		for range 3 {
			if _, err := get(t.Context(), t, client, "a"); err != nil {
				t.Error(err)
			}
		}
		if at := s.at(); at[1] != 0 || at[2] != 20*time.Second {
			t.Errorf("calls at %v: want the one that is left at once, and the next after 20 s", at)
		}
	})
}

// Nothing left and a second until the reset say little of a limit of 10,000 a
// second: it is in use again when the second is over.
func TestALargeLimitThatWasEmptyOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newService(func(n int, _ *http.Request) *http.Response {
			time.Sleep(10 * time.Millisecond)
			if n == 1000 {
				return respond(200, "RateLimit", `"a";r=0;t=1`, "RateLimit-Policy", `"a";q=10000;w=1`)
			}
			return respond(200, "RateLimit", `"a";r=9000;t=1`, "RateLimit-Policy", `"a";q=10000;w=1`)
		})
		client := &http.Client{Transport: clientlimit.New(s)}
		var all sync.WaitGroup
		for range 100 {
			all.Go(func() {
				for range 100 {
					_, _ = get(t.Context(), t, client, "a")
				}
			})
		}
		all.Wait()
		if took := time.Since(s.start); took > 10*time.Second {
			t.Errorf("10,000 requests took %v: want little more than the second that they take, and the second of the pause", took)
		}
	})
}

// The tokens of a language model that are left are enough for as many requests
// as WithUnits says.
func TestWhatIsLeftOfTokensIsSpread(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newService(func(int, *http.Request) *http.Response {
			return respond(200, "x-ratelimit-remaining-requests", "1000", "x-ratelimit-reset-requests", "100s",
				"x-ratelimit-remaining-tokens", "10000", "x-ratelimit-reset-tokens", "100s")
		})
		client := &http.Client{Transport: clientlimit.New(s, clientlimit.WithUnits(func(*http.Request) (core.Units, error) {
			return core.Units{"tokens": 1000}, nil // so 10 requests in 100 s
		}))}
		for range 5 {
			_, _ = get(t.Context(), t, client, "a")
		}
		if took := time.Since(s.start); took < 30*time.Second || took > 50*time.Second {
			t.Errorf("5 requests took %v: want some 10 s for each, but for the first two", took)
		}
	})
}

// What answers said long ago, or before a window ended, no longer counts: of many
// requests at once one asks first, and then all keep to what is left.
func TestManyRequestsAtOnceAskFirst(t *testing.T) {
	for limit, most := range map[core.Limit]int64{
		core.PerMinute(60): 0, core.PerMinute(60).WithMode(core.Aligned): 5, // of 600
		core.PerSecond(50): 150,
	} {
		synctest.Test(t, func(t *testing.T) {
			service := limited(core.HeadersDraft8, limit)
			var refused atomic.Int64
			client := &http.Client{Transport: clientlimit.New(roundTrip(func(r *http.Request) (*http.Response, error) {
				time.Sleep(50 * time.Millisecond)
				res, err := service.RoundTrip(r)
				if res.StatusCode == http.StatusTooManyRequests {
					refused.Add(1)
				}
				return res, err
			}), clientlimit.WithMaxWait(time.Hour))}
			for _, idle := range []time.Duration{0, 48 * time.Hour} {
				time.Sleep(idle)
				var all sync.WaitGroup
				for range 300 {
					all.Go(func() {
						if status, err := get(t.Context(), t, client, "a"); err != nil || status != http.StatusOK {
							t.Error(status, err)
						}
					})
				}
				all.Wait()
			}
			t.Log(limit, refused.Load())
			if n := refused.Load(); n > most {
				t.Errorf("%v: %d requests were refused, want %d at most", limit, n, most)
			}
		})
	}
}

// A thousand requests come at once to a service that takes 20 s for them, and
// all are served: none is turned away because the rate is low at first, or after
// a refusal.
func TestManyRequestsAtOnceAreServed(t *testing.T) {
	for _, style := range []core.HeaderStyle{core.HeadersNone, core.HeadersDraft8} {
		synctest.Test(t, func(t *testing.T) {
			service := limited(style, core.PerSecond(50))
			client := &http.Client{Transport: clientlimit.New(roundTrip(func(r *http.Request) (*http.Response, error) {
				time.Sleep(25 * time.Millisecond)
				return service.RoundTrip(r)
			}))}
			var all sync.WaitGroup
			var lost atomic.Int64
			for range 1000 {
				all.Go(func() {
					if status, err := get(t.Context(), t, client, "a"); err != nil || status != http.StatusOK {
						lost.Add(1)
					}
				})
			}
			if all.Wait(); lost.Load() > 0 {
				t.Errorf("%v: %d of 1000 requests were not served", style, lost.Load())
			}
		})
	}
}
