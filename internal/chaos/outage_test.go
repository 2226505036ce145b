package chaos_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/tokenbucket-go/ratelimit/core"
	"github.com/tokenbucket-go/ratelimit/core/redisstore"
	"github.com/tokenbucket-go/ratelimit/internal/faultproxy"
	"github.com/tokenbucket-go/ratelimit/internal/redistest"
)

const (
	// timeout is the store's timeout.
	timeout = 100 * time.Millisecond
	// clientTimeout is the client's own timeout. It is much longer, so a
	// request that ends earlier was ended by the store's.
	clientTimeout = time.Minute
	// crowd is how many requests begin at once during an outage.
	crowd = 2000
	// capacity is that of each bucket. Buckets refill in a day.
	capacity = 100
)

// bench is a server, a proxy that can break the network to it, and a store
// behind the proxy.
type bench struct {
	proxy  *faultproxy.Proxy
	client *redis.Client
	store  *redisstore.Store
}

func newBench(t *testing.T, edit ...func(*redis.Options)) *bench {
	t.Helper()
	b := &bench{proxy: faultproxy.New(t, redistest.Start(t).Addr)}
	options := &redis.Options{Addr: b.proxy.Addr, ReadTimeout: clientTimeout, WriteTimeout: clientTimeout}
	for _, e := range edit {
		e(options)
	}
	b.client = redis.NewClient(options)
	t.Cleanup(func() { _ = b.client.Close() })
	b.store = redisstore.New(b.client, redisstore.WithPrefix(redistest.Prefix()), redisstore.WithTimeout(timeout))
	return b
}

func (b *bench) limiter(t *testing.T, mode core.FailureMode) *core.Limiter {
	t.Helper()
	l, err := core.NewLimiter(b.store, core.Policy{Name: fmt.Sprint(mode), Limits: []core.Limit{core.PerDay(capacity)}, OnFailure: mode})
	require.NoError(t, err)
	return l
}

// hold takes every connection of the pool, as other stuck users of the client
// would, and returns what gives them back.
func hold(t *testing.T, b *bench) (end func()) {
	conns := make([]*redis.Conn, b.client.Options().PoolSize)
	for i := range conns {
		conns[i] = b.client.Conn()
		require.NoError(t, conns[i].Ping(context.Background()).Err())
	}
	return func() {
		for _, c := range conns {
			require.NoError(t, c.Close())
		}
	}
}

// Of each way in which a store gets no answer there is one here. TestFaults
// has all others.
func TestFailureModesDuringOutages(t *testing.T) {
	network := func(breaks func(p *faultproxy.Proxy)) func(*testing.T, *bench) func() {
		return func(_ *testing.T, b *bench) func() {
			breaks(b.proxy)
			return func() { b.proxy.Set(faultproxy.None) }
		}
	}
	for name, begin := range map[string]func(*testing.T, *bench) (end func()){
		"latency above the timeout": network(func(p *faultproxy.Proxy) { p.SetLatency(5 * timeout) }),
		"black hole":                network(func(p *faultproxy.Proxy) { p.Set(faultproxy.BlackHole) }),
		"connections reset":         network(func(p *faultproxy.Proxy) { p.Set(faultproxy.Reset) }),
		"connection pool exhausted": hold,
	} {
		t.Run(name, func(t *testing.T) {
			ignore := goleak.IgnoreCurrent()
			t.Cleanup(func() { // after all other clean-ups
				// Find waits for half a second only.
				for began := time.Now(); goleak.Find(ignore) != nil && time.Since(began) < wait; {
				}
				goleak.VerifyNone(t, ignore)
			})
			b := newBench(t)
			local, open, closed := b.limiter(t, core.FailLocal), b.limiter(t, core.FailOpen), b.limiter(t, core.FailClosed)
			untilRedisDecides(t, local, "premise: the store answers")

			end := begin(t, b)
			// While the breaker is closed, a decision may wait for the timeout
			// and no longer.
			admitted, slowest := crowded(t, local, "onset", core.FromFallback)
			assert.Equal(t, int64(capacity), admitted, "FailLocal admits what this process's bucket holds")
			assert.Less(t, slowest, clientTimeout/2, "a decision must wait for the store's timeout, not for the client's")
			require.Eventually(t, func() bool { // or this is the one that tries whether the store is back
				res, err := local.Allow(context.Background(), "other")
				require.NoError(t, err, "FailLocal decides whatever the store does")
				return errors.Is(res.Cause, core.ErrBreakerOpen)
			}, wait, tick, "failures in a row must open the breaker, and Result.Cause must say so")

			admitted, _ = crowded(t, local, "crowd", core.FromFallback)
			assert.Equal(t, int64(capacity), admitted, "FailLocal admits what this process's bucket holds")
			admitted, _ = crowded(t, open, "crowd", core.FromFailOpen)
			assert.Equal(t, int64(crowd), admitted, "FailOpen admits everything")
			_, err := closed.Allow(context.Background(), "crowd")
			require.ErrorIs(t, err, core.ErrUnavailable, "FailClosed admits nothing")

			end()
			untilRedisDecides(t, local, "recovery is automatic")
		})
	}
}

// untilRedisDecides asks until Redis decides.
func untilRedisDecides(t *testing.T, l *core.Limiter, rule string) {
	t.Helper()
	require.Eventually(t, func() bool { // a machine that pauses for the timeout is no outage yet
		res, err := l.Allow(context.Background(), "any")
		require.NoError(t, err)
		return res.Source == core.FromStore
	}, 2*wait, tick, rule)
}

// crowded makes requests for one key from many goroutines at once. It returns
// how many were allowed and how long the slowest took.
func crowded(t *testing.T, l *core.Limiter, key string, source core.Source) (admitted int64, slowest time.Duration) {
	t.Helper()
	var count, others atomic.Int64
	times := make([]time.Duration, crowd)
	start := make(chan struct{})
	var all sync.WaitGroup
	for i := range crowd {
		all.Go(func() {
			<-start
			began := time.Now()
			res, err := l.Allow(context.Background(), key)
			times[i] = time.Since(began)
			if err != nil || res.Source != source {
				others.Add(1)
			}
			if res.Allowed {
				count.Add(1)
			}
		})
	}
	close(start)
	all.Wait()
	assert.Zero(t, others.Load(), "every decision of the outage must come from %v", source)
	return count.Load(), slices.Max(times)
}
