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

// play has clients in several processes send requests as fast as they can, for
// a time. Goodput is their share of what limit admits. Nothing is by chance:
// each process has a sequence of its own for jitter, and its way to the service
// is longer by apart than that of the one before. So no two come at one
// instant.
func play(t *testing.T, service http.RoundTripper, limit core.Limit, clients, processes int, d, apart time.Duration, options ...clientlimit.Option) load {
	t.Helper()
	end := time.Now().Add(d)
	got := make([]float64, clients*processes)
	var all sync.WaitGroup
	var refused atomic.Int64
	for p := range processes {
		sees := roundTrip(func(r *http.Request) (*http.Response, error) {
			time.Sleep(5*time.Millisecond + time.Duration(p)*apart)
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

// Clients that know nothing of a limit learn it from the answers, whatever
// fields they have, and share it alike. From Retry-After alone each process
// learns by itself: their shares differ.
func TestClientsLearnTheRate(t *testing.T) {
	limit := core.PerSecond(50)
	for name, c := range map[string]struct {
		style   core.HeaderStyle
		goodput float64
		refused float64 // the most, as a share
		jain    float64 // of the clients of one process
		apart   float64 // the same, of four processes
	}{
		"X-RateLimit":       {core.HeadersLegacy, 0.99, 0, 0.99, 0.99},
		"drafts 8 to 11":    {core.HeadersDraft8, 0.99, 0, 0.99, 0.99},
		"draft 6":           {core.HeadersDraft6, 0.99, 0, 0.99, 0.99},
		"Retry-After alone": {core.HeadersNone, 0.95, 0.07, 0.99, 0.5},
	} {
		for _, n := range []struct{ clients, processes int }{{1, 1}, {10, 1}, {100, 1}, {1, 4}, {10, 4}} {
			t.Run(fmt.Sprintf("%s/%dx%d", name, n.clients, n.processes), func(t *testing.T) {
				inBubble(t, func(t *testing.T) {
					got := play(t, limited(t, c.style, limit), limit, n.clients, n.processes, 30*time.Second, 37*time.Microsecond)
					if got.goodput < c.goodput || got.goodput > 1 {
						t.Errorf("goodput %.3f, want from %.2f to 1: the clients use what the limit admits", got.goodput, c.goodput)
					}
					if share := got.refused / (got.served + got.refused); share > c.refused {
						t.Errorf("%.1f %% of the requests were refused, want %.0f %% at most", 100*share, 100*c.refused)
					}
					jain := c.jain
					if n.processes > 1 {
						jain = c.apart
					}
					if got.jain < jain {
						t.Errorf("Jain's index of fairness is %.3f, want at least %.2f", got.jain, jain)
					}
				})
			})
		}
	}
}

// A bucket that is much smaller than a second's requests is learned too. It has
// less room for accidents: see docs/client.md.
func TestClientsLearnTheRateOfASmallBucket(t *testing.T) {
	limit := core.PerSecond(50).WithBurst(5)
	for processes, goodput := range map[int]float64{1: 0.93, 4: 0.7} {
		for _, style := range []core.HeaderStyle{core.HeadersLegacy, core.HeadersDraft8} {
			inBubble(t, func(t *testing.T) {
				if got := play(t, limited(t, style, limit), limit, 10, processes, time.Minute, 37*time.Microsecond); got.goodput < goodput || got.goodput > 1 {
					t.Errorf("%d processes and fields of style %v: goodput %.3f, want from %.2f to 1", processes, style, got.goodput, goodput)
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
				got := play(t, limited(t, style, limit), limit, 10, 1, windows*window, 0)
				if share := got.served / windows / float64(limit.Capacity); share < goodput || share > 1 || got.refused > 0 {
					t.Errorf("windows of %v, fields of style %v: %.3f of the limit and %.0f refused, want from %.2f to 1, and none", window, style, share, got.refused, goodput)
				}
			})
		}
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
				got := play(t, limited(t, style, limit), limit, 10, 4, 10*time.Second, 0, clientlimit.WithLimiter(own, clientlimit.ByHost()))
				if got.refused > 0 || got.goodput < 0.98 || got.jain < 0.98 {
					t.Errorf("with a burst of %d and fields of style %v: %+v, want no refusals, and goodput and fairness of at least 0.98", burst, style, got)
				}
			})
		}
	}
}
