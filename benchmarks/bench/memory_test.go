package bench_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/didip/tollbooth/v8"
	tollboothlimiter "github.com/didip/tollbooth/v8/limiter"
	"github.com/sethvargo/go-limiter/memorystore"
	"github.com/stretchr/testify/require"
	"github.com/throttled/throttled/v2/store/memstore"
	ululememory "github.com/ulule/limiter/v3/drivers/store/memory"
	"golang.org/x/time/rate"

	"github.com/tokenbucket-go/ratelimit/core"
)

// memoryPeers are limiters in this process, without a bound on their keys or
// with one that no benchmark reaches.
var memoryPeers = []struct {
	name string
	new  func(b *testing.B, l limit) decide
}{
	{ours, func(b *testing.B, l limit) decide { return l.library(b, core.NewMemoryStore()) }},
	{"x-time+sync.Map", newXTime},
	{"go-limiter", newGoLimiter},
	{"throttled", newThrottledMemory},
	{"ulule", func(_ *testing.B, l limit) decide { return ululeDecide(ululememory.NewStore(), l) }},
	{"tollbooth", newTollbooth},
}

// newXTime is what services write by hand.
func newXTime(_ *testing.B, l limit) decide {
	var limiters sync.Map
	return func(_ context.Context, key string) (bool, error) {
		found, ok := limiters.Load(key)
		if !ok {
			found, _ = limiters.LoadOrStore(key, rate.NewLimiter(rate.Every(l.interval), l.burst))
		}
		return found.(*rate.Limiter).Allow(), nil
	}
}

func newGoLimiter(b *testing.B, l limit) decide {
	store, err := memorystore.New(&memorystore.Config{Tokens: uint64(l.burst), Interval: window})
	require.NoError(b, err)
	b.Cleanup(func() { _ = store.Close(context.Background()) })
	return func(ctx context.Context, key string) (bool, error) {
		_, _, _, ok, err := store.Take(ctx, key)
		return ok, err
	}
}

// newThrottledMemory has no bound: with one, throttled takes a single lock for
// all keys.
func newThrottledMemory(b *testing.B, l limit) decide {
	store, err := memstore.NewCtx(0)
	require.NoError(b, err)
	return throttledDecide(b, store, l)
}

func newTollbooth(_ *testing.B, l limit) decide {
	perSecond := 1 / l.interval.Seconds()
	expiry := &tollboothlimiter.ExpirableOptions{DefaultExpirationTTL: window}
	limiter := tollbooth.NewLimiter(perSecond, expiry).SetBurst(l.burst)
	return func(_ context.Context, key string) (bool, error) { return !limiter.LimitReached(key), nil }
}

// BenchmarkMemory decides in this process on one key and on 100,000, with as
// many goroutines as run at once. All requests are allowed.
func BenchmarkMemory(b *testing.B) {
	for _, n := range []int{1, 100_000} {
		keys, l := names(n), roomy
		if n == 1 {
			l = vast
		}
		asked := asTraffic(keys)
		for _, p := range memoryPeers {
			before := liveHeap()
			d := p.new(b, l)
			fill := func(i int) error { return d.expect(context.Background(), keys[i], true) }
			require.NoError(b, atOnce(1, n, fill), p.name)
			bytes := float64(liveHeap()) - float64(before)
			b.Run(fmt.Sprintf("keys=%d/peer=%s", n, p.name), func(b *testing.B) {
				spread(b, runtime.GOMAXPROCS(0), func(i int) error {
					return d.expect(context.Background(), asked[i%n], true)
				})
				if n > 1 {
					b.ReportMetric(bytes/float64(n), "heap-B/key")
				}
			})
		}
	}
}

// asTraffic returns keys as traffic brings them: in another order than they
// first came in, and as strings of their own. Else memory would be read in
// sequence, and a store that keeps its caller's string would find it equal
// without reading it.
func asTraffic(keys []string) []string {
	asked := slices.Clone(keys)
	rand.Shuffle(len(asked), func(i, j int) { asked[i], asked[j] = asked[j], asked[i] })
	for i := range asked {
		asked[i] = strings.Clone(asked[i])
	}
	return asked
}

// liveHeap returns how many bytes of heap are in use.
func liveHeap() uint64 {
	for range 3 { // finalizers and pools take more than one collection
		runtime.GC()
	}
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.HeapAlloc
}
