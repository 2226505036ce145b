// Package bench_test measures this library beside its peers, each with the same
// limit and used as its documentation says. Where there is a choice, the
// quicker way is taken. A benchmark fails unless every request is decided as it
// says, by the store and without an error.
//
// Settings that differ from defaults:
//
//   - clients of go-redis: ContextTimeoutEnabled, as a service should
//   - ratelimit: WithTimeout(3 * time.Second) and core.FailClosed, so that stalls and outages show
//   - throttled: SetMaxCASAttemptsLimit(1_000_000), because a busy key fails with 10; in memory no bound on keys
//   - httprate-redis: FallbackDisabled; gin-rate-limit: PanicOnErr
//   - windows, and the expiry of tollbooth's and echo's buckets: an hour
//   - Redis: no snapshots, no append-only file
package bench_test

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/tokenbucket-go/ratelimit/core"
)

// ours is the name of this library among its peers.
const ours = "ratelimit"

// A limit is a bucket of burst tokens that gains one token each interval. Peers
// that count in windows admit burst requests an hour.
type limit struct {
	burst    int
	interval time.Duration
}

// roomy and vast admit all that a run asks of one of many keys, and of a single
// key. A bucket lasts until it is full again: of roomy half an hour, of vast
// while it is used more than once a second. single admits one request.
var (
	roomy  = limit{burst: 1_000_000, interval: 30 * time.Minute}
	vast   = limit{burst: 1_000_000_000, interval: time.Second}
	single = limit{burst: 1, interval: time.Hour}
)

// window is that of peers that count in windows. It is longer than a run.
const window = time.Hour

// policy is that of this library. A limiter with it refuses what its store did
// not decide.
func (l limit) policy() core.Policy {
	return core.Policy{
		Name: "api", Limits: []core.Limit{core.Per(1, l.interval).WithBurst(int64(l.burst))}, OnFailure: core.FailClosed,
	}
}

// A decide function takes a token for key and reports whether there was one.
type decide func(ctx context.Context, key string) (allowed bool, err error)

// library decides by this library.
func (l limit) library(b *testing.B, store core.Store) decide {
	b.Helper()
	limiter, err := core.NewLimiter(store, l.policy())
	require.NoError(b, err)
	return func(ctx context.Context, key string) (bool, error) {
		res, err := limiter.Allow(ctx, key)
		return res.Allowed, err
	}
}

// expect decides once, and returns an error unless the decision is want.
func (d decide) expect(ctx context.Context, key string, want bool) error {
	allowed, err := d(ctx, key)
	if err == nil && allowed != want {
		err = fmt.Errorf("key %s: allowed is %v, must be %v", key, allowed, want)
	}
	return err
}

// names returns n different keys.
func names(n int) []string {
	keys := make([]string, n)
	for i := range keys {
		keys[i] = fmt.Sprintf("user:%06d", i)
	}
	return keys
}

// spread performs the operations 0 to b.N-1 on so many goroutines. Each
// goroutine has a part of them, and performs one after the other.
func spread(b *testing.B, goroutines int, op func(i int) error) {
	b.Helper()
	b.ReportAllocs()
	b.ResetTimer()
	require.NoError(b, atOnce(goroutines, b.N, op))
	b.StopTimer()
}

// atOnce performs the operations 0 to n-1 on so many goroutines, and returns an
// error of one of them.
func atOnce(goroutines, n int, op func(i int) error) error {
	var all sync.WaitGroup
	errs := make(chan error, goroutines)
	for g := range goroutines {
		all.Go(func() {
			for i := n * g / goroutines; i < n*(g+1)/goroutines; i++ {
				if err := op(i); err != nil {
					errs <- err
					return
				}
			}
		})
	}
	all.Wait()
	close(errs)
	return <-errs
}
