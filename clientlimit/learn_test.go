package clientlimit_test

import (
	"net/http"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/tokenbucket-go/ratelimit/clientlimit"
	"github.com/tokenbucket-go/ratelimit/core"
)

// load is what clients got of a service.
type load struct{ served, refused, goodput, jain float64 }

// play has clients in several processes send requests as fast as they can, for a time. Goodput is their share of what limit admits.
func play(t *testing.T, service http.RoundTripper, limit core.Limit, clients, processes int, d time.Duration, options ...clientlimit.Option) load {
	t.Helper()
	end := time.Now().Add(d)
	got := make([]float64, clients*processes)
	var all sync.WaitGroup
	var mu sync.Mutex
	refused := 0.0
	for p := range processes {
		sees := roundTrip(func(r *http.Request) (*http.Response, error) {
			time.Sleep(5 * time.Millisecond)
			res, err := service.RoundTrip(r)
			if res.StatusCode == http.StatusTooManyRequests {
				mu.Lock()
				refused++
				mu.Unlock()
			}
			return res, err
		})
		client := &http.Client{Transport: clientlimit.New(sees, options...)}
		for c := range clients {
			all.Go(func() {
				for time.Now().Before(end) {
					if status, err := get(t.Context(), t, client, "a"); err == nil && status == http.StatusOK && time.Now().Before(end) {
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
	return load{sum, refused, sum / float64(limit.MaxIn(d)), sum * sum / squares / float64(len(got))}
}

type roundTrip func(*http.Request) (*http.Response, error)

func (f roundTrip) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

// Clients that know nothing of a limit learn it from the answers, whatever fields they have, and share it alike.
func TestClientsLearnTheRate(t *testing.T) {
	for name, c := range map[string]struct {
		style   core.HeaderStyle
		goodput float64
		refused float64 // the most, as a share
		jain    float64
	}{
		"X-RateLimit":      {core.HeadersLegacy, 0.95, 0, 0.98},
		"drafts 8 to 11":   {core.HeadersDraft8, 0.95, 0, 0.98},
		"draft 6":          {core.HeadersDraft6, 0.95, 0, 0.98},
		"Retry-After only": {core.HeadersNone, 0.9, 0.2, 0.4},
	} {
		for _, n := range []struct{ clients, processes int }{{1, 1}, {10, 1}, {100, 1}, {1, 4}, {10, 4}} {
			t.Run(name+" "+strconv.Itoa(n.clients)+"x"+strconv.Itoa(n.processes), func(t *testing.T) {
				inBubble(t, func(t *testing.T) {
					limit := core.PerSecond(50)
					got := play(t, limited(t, c.style, limit), limit, n.clients, n.processes, 30*time.Second)
					if got.goodput < c.goodput || got.goodput > 1 {
						t.Errorf("goodput %.3f, want at least %.2f: the clients use what the limit admits", got.goodput, c.goodput)
					}
					if share := got.refused / (got.served + got.refused); share > c.refused {
						t.Errorf("%.0f of %.0f requests were refused, want at most %.0f %%", got.refused, got.served, 100*c.refused)
					}
					if got.jain < c.jain {
						t.Errorf("Jain's index of fairness is %.3f, want at least %.2f", got.jain, c.jain)
					}
				})
			})
		}
	}
}

// A bucket that is much smaller than a second's requests is learned too.
func TestClientsLearnTheRateOfASmallBucket(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		limit := core.PerSecond(50).WithBurst(5)
		if got := play(t, limited(t, core.HeadersDraft8, limit), limit, 10, 1, 60*time.Second); got.goodput < 0.9 {
			t.Errorf("goodput %.3f, want at least 0.9", got.goodput)
		}
	})
}

// With a limiter that knows the limit no request is refused, and none of the limit is lost.
func TestALimiterPacesExactly(t *testing.T) {
	for _, burst := range []int64{1, 5, 50} {
		for _, style := range []core.HeaderStyle{core.HeadersNone, core.HeadersLegacy, core.HeadersDraft8} {
			inBubble(t, func(t *testing.T) {
				limit := core.PerSecond(50).WithBurst(burst)
				own := core.Must(core.NewLimiter(core.NewMemoryStore(), core.Policy{Name: "own", Limits: []core.Limit{limit}}))
				got := play(t, limited(t, style, limit), limit, 10, 4, 10*time.Second, clientlimit.WithLimiter(own, clientlimit.ByHost()))
				if got.refused > 0 || got.goodput < 0.98 || got.jain < 0.98 {
					t.Errorf("with a burst of %d and fields of style %v: %+v, want no refusals, and goodput and fairness of at least 0.98", burst, style, got)
				}
			})
		}
	}
}
