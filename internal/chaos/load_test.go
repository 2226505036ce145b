package chaos_test

import (
	"context"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/tokenbucket-go/ratelimit/core"
)

// load makes requests from several goroutines until it is stopped, and counts
// their results.
type load struct {
	decisions, admitted, fallback, failed atomic.Int64

	failure atomic.Pointer[error] // the last

	stop chan struct{}
	done sync.WaitGroup
}

// startLoad makes requests to l, with one goroutine for each key.
func startLoad(l *core.Limiter, keys ...string) *load {
	ld := &load{stop: make(chan struct{})}
	for _, key := range keys {
		ld.done.Go(func() {
			for {
				select {
				case <-ld.stop:
					return
				default:
				}
				res, err := l.Allow(context.Background(), key)
				switch {
				case err != nil:
					ld.failed.Add(1)
					ld.failure.Store(&err)
				case res.Source == core.FromFallback:
					ld.fallback.Add(1)
				}
				if res.Allowed {
					ld.admitted.Add(1)
				}
				ld.decisions.Add(1)
			}
		})
	}
	return ld
}

// pass waits until n more decisions are made.
func (ld *load) pass(t *testing.T, n int64) {
	t.Helper()
	target := ld.decisions.Load() + n
	require.Eventually(t, func() bool { return ld.decisions.Load() >= target }, wait, tick, "decisions go on")
}

// drained waits until the buckets of all keys are empty.
func drained(t *testing.T, l *core.Limiter, keys []string) {
	t.Helper()
	for _, key := range keys {
		require.Eventually(t, func() bool {
			res, err := l.Peek(context.Background(), key)
			return err == nil && res.Remaining == 0
		}, wait, tick, key)
	}
}

func (ld *load) end() {
	close(ld.stop)
	ld.done.Wait()
}
