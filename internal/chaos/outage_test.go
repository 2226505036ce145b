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
	server *redistest.Server
	proxy  *faultproxy.Proxy
	client *redis.Client
	store  *redisstore.Store
}

func newBench(t *testing.T, edit ...func(*redis.Options)) *bench {
	t.Helper()
	b := &bench{server: redistest.Start(t)}
	b.proxy = faultproxy.New(t, b.server.Addr)
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

// outage is a fault during which the store can't answer.
type outage struct {
	name  string
	begin func(*testing.T, *bench)
	end   func(*testing.T, *bench)
}

// forgets reports whether the server may lose what it had: it is restarted, or
// takes over what another one has.
func (o outage) forgets() bool {
	return slices.Contains([]string{"kill -9 and restart", "reading a large data set (LOADING)", "a replica whose master is gone (MASTERDOWN)"}, o.name)
}

func network(name string, f faultproxy.Fault) outage {
	return outage{name,
		func(_ *testing.T, b *bench) { b.proxy.Set(f) },
		func(_ *testing.T, b *bench) { b.proxy.Set(faultproxy.None) }}
}

var outages = []outage{
	{"kill -9 and restart",
		func(_ *testing.T, b *bench) { b.server.Kill() },
		func(t *testing.T, b *bench) { b.server.Restart(t) }},
	{"SIGSTOP and SIGCONT",
		func(_ *testing.T, b *bench) { b.server.Pause() },
		func(_ *testing.T, b *bench) { b.server.Resume() }},
	{"latency above the timeout",
		func(_ *testing.T, b *bench) { b.proxy.SetLatency(5 * timeout) },
		func(_ *testing.T, b *bench) { b.proxy.Set(faultproxy.None) }},
	network("black hole", faultproxy.BlackHole),
	network("half open: replies are lost", faultproxy.HalfOpen),
	network("truncated replies", faultproxy.Truncate),
	network("connections reset", faultproxy.Reset),
	{"memory full, noeviction",
		func(t *testing.T, b *bench) { configure(t, b, "maxmemory", "1") },
		func(t *testing.T, b *bench) { configure(t, b, "maxmemory", "0") }},
	{"a script of others does not end (BUSY)", occupy, vacate},
	{"reading a large data set (LOADING)", loading, loaded},
	{"a replica whose master is gone (MASTERDOWN)", orphan, promote},
	{"connection pool exhausted", hold, release},
}

func configure(t *testing.T, b *bench, name, value string) {
	t.Helper()
	require.NoError(t, b.server.Client(t).ConfigSet(context.Background(), name, value).Err())
}

// occupy runs a script that does not end. From then on the server replies BUSY.
func occupy(t *testing.T, b *bench) {
	t.Helper()
	configure(t, b, "lua-time-limit", "10") // ms, until it does
	client := b.server.Client(t)
	go func() { _ = client.Eval(context.Background(), "while true do end", nil).Err() }()
	replies(t, b, "BUSY")
}

// loading has the server take over 20,000 keys of a master, and read them so
// slowly that it takes minutes. From then on it replies LOADING.
func loading(t *testing.T, b *bench) {
	t.Helper()
	ctx, master := context.Background(), redistest.Start(t)
	admin := master.Client(t)
	require.NoError(t, admin.ConfigSet(ctx, "rdbcompression", "no").Err())
	require.NoError(t, admin.Eval(ctx, `for i = 1, 20000 do redis.call("set", "k" .. i, string.rep("v", 2000)) end return "OK"`, nil).Err())
	configure(t, b, "loading-process-events-interval-bytes", "1024") // it answers after each key
	configure(t, b, "key-load-delay", "20000")                       // µs
	host, port := hostPort(t, master.Addr)
	require.NoError(t, b.server.Client(t).ReplicaOf(ctx, host, port).Err())
	replies(t, b, "LOADING")
}

func loaded(t *testing.T, b *bench) {
	t.Helper()
	configure(t, b, "key-load-delay", "0")
	require.Eventually(t, func() bool {
		return b.server.Client(t).ReplicaOf(context.Background(), "no", "one").Err() == nil
	}, wait, tick, "premise: the server has read all")
}

// orphan makes the server a replica that has lost its master, and may not use
// what it has. From then on it replies MASTERDOWN.
func orphan(t *testing.T, b *bench) {
	t.Helper()
	master := redistest.Start(t)
	follow(t, b.server, master.Addr)
	configure(t, b, "replica-serve-stale-data", "no")
	master.Kill()
	replies(t, b, "MASTERDOWN")
}

func promote(t *testing.T, b *bench) {
	t.Helper()
	require.NoError(t, b.server.Client(t).ReplicaOf(context.Background(), "no", "one").Err())
}

// replies waits until the server replies to commands with this error.
func replies(t *testing.T, b *bench, begins string) {
	t.Helper()
	require.Eventually(t, func() bool {
		return redis.HasErrorPrefix(b.server.Client(t).Get(context.Background(), "any").Err(), begins)
	}, wait, tick, "premise: the server replies %s", begins)
}

func vacate(t *testing.T, b *bench) {
	t.Helper()
	require.NoError(t, b.server.Client(t).ScriptKill(context.Background()).Err())
}

var heldConns sync.Map // from *bench to the connections that hold has taken

// hold takes every connection of the pool, as other stuck users of the client
// would.
func hold(t *testing.T, b *bench) {
	t.Helper()
	conns := make([]*redis.Conn, b.client.Options().PoolSize)
	for i := range conns {
		conns[i] = b.client.Conn()
		require.NoError(t, conns[i].Ping(context.Background()).Err())
	}
	heldConns.Store(b, conns)
}

func release(t *testing.T, b *bench) {
	t.Helper()
	conns, _ := heldConns.LoadAndDelete(b)
	for _, c := range conns.([]*redis.Conn) {
		require.NoError(t, c.Close())
	}
}

func TestFailureModesDuringOutages(t *testing.T) {
	for _, o := range outages {
		t.Run(o.name, func(t *testing.T) {
			ignore := goleak.IgnoreCurrent()
			t.Cleanup(func() { // after all other clean-ups
				// Find waits for half a second only.
				for began := time.Now(); goleak.Find(ignore) != nil && time.Since(began) < wait; {
				}
				goleak.VerifyNone(t, ignore)
			})
			b := newBench(t)
			local, open, closed := b.limiter(t, core.FailLocal), b.limiter(t, core.FailOpen), b.limiter(t, core.FailClosed)
			ctx := context.Background()

			var res core.Result
			require.Eventually(t, func() bool { // a machine that pauses for the timeout is no outage yet
				var err error
				res, err = local.Allow(ctx, "healthy")
				return err == nil && res.Source == core.FromStore
			}, wait, tick, "premise: the store answers")

			o.begin(t, b)
			// While the breaker is closed, a decision may wait for the timeout
			// and no longer.
			admitted, slowest := crowded(t, local, "onset", core.FromFallback)
			assert.Equal(t, int64(capacity), admitted, "FailLocal admits what this process's bucket holds")
			assert.Less(t, slowest, clientTimeout/2, "a decision must wait for the store's timeout, not for the client's")

			require.Eventually(t, func() bool { // or this is the one that tries whether the store is back
				var err error
				res, err = local.Allow(ctx, "other")
				require.NoError(t, err, "FailLocal decides whatever the store does")
				return errors.Is(res.Cause, core.ErrBreakerOpen)
			}, wait, tick, "failures in a row must open the breaker, and Result.Cause must say so")
			var err error

			admitted, _ = crowded(t, local, "crowd", core.FromFallback)
			assert.Equal(t, int64(capacity), admitted, "FailLocal admits what this process's bucket holds")
			admitted, _ = crowded(t, open, "crowd", core.FromFailOpen)
			assert.Equal(t, int64(crowd), admitted, "FailOpen admits everything")
			_, err = closed.Allow(ctx, "crowd")
			require.ErrorIs(t, err, core.ErrUnavailable, "FailClosed admits nothing")

			o.end(t, b)
			start := time.Now()
			for res.Source = core.FromFallback; res.Source != core.FromStore; {
				res, err = local.Allow(ctx, "recovery")
				require.NoError(t, err)
				require.Less(t, time.Since(start), 2*wait, "recovery is automatic")
			}
		})
	}
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
