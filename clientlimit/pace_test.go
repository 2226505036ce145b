package clientlimit_test

import (
	"fmt"
	"math/rand/v2"
	"net/http"
	"os"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tokenbucket-go/ratelimit/clientlimit"
	"github.com/tokenbucket-go/ratelimit/core"
)

// load is what clients got of a service.
type load struct{ denied, goodput, slowest, jain float64 }

// play has clients of several processes send requests as fast as they can, for a
// time. Goodput is their share of what limit admits.
func play(t *testing.T, service http.RoundTripper, limit core.Limit, clients, processes int, d time.Duration, options ...clientlimit.Option) load {
	t.Helper()
	end := time.Now().Add(d)
	var refused, sent atomic.Int64
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
	got := make([]float64, clients*processes)
	var slowest atomic.Int64
	var all sync.WaitGroup
	for p := range processes {
		client := &http.Client{Transport: clientlimit.New(way, options...)}
		for c := range clients {
			all.Go(func() {
				for time.Now().Before(end) {
					began := time.Now()
					status, err := get(t.Context(), t, client, "a")
					slowest.Store(max(slowest.Load(), int64(time.Since(began))))
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
	return load{
		denied: 100 * float64(refused.Load()) / float64(sent.Load()), goodput: 100 * sum / float64(limit.MaxIn(d)),
		slowest: time.Duration(slowest.Load()).Seconds(), jain: sum * sum / squares / float64(len(got)),
	}
}

func TestExplore(t *testing.T) {
	if os.Getenv("EXPLORE") == "" {
		t.Skip()
	}
	for _, limit := range []core.Limit{core.PerSecond(50), core.PerSecond(50).WithBurst(5), core.PerSecond(50).WithBurst(500), core.PerSecond(10_000), core.PerMinute(60), core.PerMinute(60).WithMode(core.Aligned), core.PerMinute(10), core.PerSecond(50).WithMode(core.Aligned)} {
		for _, style := range []core.HeaderStyle{core.HeadersNone, core.HeadersLegacy, core.HeadersDraft8, core.HeadersDraft6} {
			for _, n := range [][2]int{{1, 1}, {10, 1}, {100, 1}, {10, 4}} {
				if limit.RefillRate == 10_000 && n[1] > 1 {
					continue
				}
				synctest.Test(t, func(t *testing.T) {
					got := play(t, limited(style, limit), limit, n[0], n[1], 2*time.Minute)
					fmt.Printf("%-28s %-20v %3d x %d: denied %5.2f goodput %6.2f slowest %5.1fs jain %.3f\n", fmt.Sprint(limit), style, n[0], n[1], got.denied, got.goodput, got.slowest, got.jain)
				})
			}
		}
	}
}
