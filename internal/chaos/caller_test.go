package chaos_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/tokenbucket-go/ratelimit/core"
	"github.com/tokenbucket-go/ratelimit/core/redisstore"
	"github.com/tokenbucket-go/ratelimit/internal/faultproxy"
	"github.com/tokenbucket-go/ratelimit/internal/redistest"
)

// The network drops a call, and the caller's context ends. The request must
// return at once with the context's error, and must not count as a failure of
// the store. The client has a hook, so that nobody waits for it.
func TestCanceledRequestsAreNoOutage(t *testing.T) {
	beside(t)
	b := newBench(t)
	b.client.AddHook(redistest.Hook{})
	// The store abandons stuck calls after this time. The callers' contexts end
	// long before.
	const patience = 20 * time.Second
	b.store = redisstore.New(b.client, redisstore.WithTimeout(patience))
	l := b.limiter(t, core.FailLocal)
	ctx := context.Background()
	_, err := l.Allow(ctx, "k")
	require.NoError(t, err)

	b.proxy.Set(faultproxy.BlackHole)
	for _, c := range []struct {
		name string
		ctx  func() (context.Context, context.CancelFunc)
		want error
	}{
		{"cancelled while it waits", func() (context.Context, context.CancelFunc) {
			ctx, cancel := context.WithCancel(ctx)
			time.AfterFunc(10*time.Millisecond, cancel)
			return ctx, cancel
		}, context.Canceled},
		{"deadline while it waits", func() (context.Context, context.CancelFunc) {
			return context.WithTimeout(ctx, 10*time.Millisecond)
		}, context.DeadlineExceeded},
	} {
		for range 20 { // more than it takes to open the breaker
			ctx, cancel := c.ctx()
			start := time.Now()
			res, err := l.Allow(ctx, "k")
			cancel()
			require.ErrorIs(t, err, c.want, c.name)
			require.NotErrorIs(t, err, core.ErrUnavailable, c.name)
			assert.False(t, res.Allowed, "an error must not allow the request")
			assert.Less(t, time.Since(start), patience/2, "%s: it returns when its context ends, not when the store gives up", c.name)
		}
	}

	b.proxy.Set(faultproxy.Reset) // so that stuck calls end
	b.proxy.Set(faultproxy.None)
	res, err := l.Allow(ctx, "k")
	require.NoError(t, err)
	assert.Equal(t, core.FromStore, res.Source, "callers who left opened no breaker: %v", res.Cause)
}

// A client of one server returns in time, so callers wait for it themselves.
// The network drops their calls. A deadline is kept; a caller that is cancelled
// leaves when its call ends, with the store's timeout.
func TestCallerWaitsForItsOwnCall(t *testing.T) {
	for _, minds := range []bool{false, true} {
		t.Run(fmt.Sprintf("ContextTimeoutEnabled %v", minds), func(t *testing.T) {
			beside(t)
			b := newBench(t, func(o *redis.Options) { o.ContextTimeoutEnabled = minds })
			b.store = redisstore.New(b.client, redisstore.WithTimeout(2*time.Second), redisstore.WithBreaker(1000, time.Second))
			l := b.limiter(t, core.FailLocal)
			_, err := l.Allow(context.Background(), "k")
			require.NoError(t, err)

			b.proxy.Set(faultproxy.BlackHole)
			ctx, cancel := context.WithCancel(context.Background())
			time.AfterFunc(10*time.Millisecond, cancel)
			began := time.Now()
			res, err := l.Allow(ctx, "k")
			require.ErrorIs(t, err, context.Canceled)
			assert.False(t, res.Allowed, "an error must not allow the request")
			assert.Less(t, time.Since(began), clientTimeout/2, "it returns with the store's timeout, not with the client's")

			const patience = 20 * time.Second
			b.store = redisstore.New(b.client, redisstore.WithTimeout(patience))
			l = b.limiter(t, core.FailLocal)
			b.proxy.Set(faultproxy.None)
			_, err = l.Allow(context.Background(), "k")
			require.NoError(t, err)
			b.proxy.Set(faultproxy.BlackHole)
			ctx, cancel = context.WithTimeout(context.Background(), 10*time.Millisecond)
			defer cancel()
			began = time.Now()
			_, err = l.Allow(ctx, "k")
			require.ErrorIs(t, err, context.DeadlineExceeded)
			assert.Less(t, time.Since(began), patience/2, "it returns at its deadline")
		})
	}
}

// Whatever go-redis has to do for a decision, all of it is over with the
// store's timeout: to set up a connection, and to send the script that the
// server has lost.
func TestDecisionTakesNoLongerThanTheTimeout(t *testing.T) {
	const patience = 3 * time.Second
	for name, prepare := range map[string]func(*bench, *core.Limiter){
		"a connection that is not set up": func(*bench, *core.Limiter) {},
		"a script that is lost": func(b *bench, l *core.Limiter) {
			for range 3 {
				_, err := l.Allow(context.Background(), "k")
				require.NoError(t, err)
			}
			require.NoError(t, b.client.ScriptFlush(context.Background()).Err())
		},
	} {
		t.Run(name, func(t *testing.T) {
			beside(t)
			b := newBench(t, func(o *redis.Options) { o.MinIdleConns = 1 })
			b.store = redisstore.New(b.client, redisstore.WithTimeout(patience), redisstore.WithDenyCache(0))
			l := b.limiter(t, core.FailLocal)
			prepare(b, l)
			const latency = 9 * patience / 10 // of each reply
			b.proxy.SetLatency(latency)
			began := time.Now()
			res, err := l.Allow(context.Background(), "k")
			require.NoError(t, err)
			assert.Equal(t, core.FromFallback, res.Source)
			assert.Less(t, time.Since(began), 2*latency, "it does not wait for two replies")
		})
	}
}

// warm fills the client's pool with connections, so that a retry finds one. It
// tries again if the client's timeout is too short for a busy machine.
func warm(t *testing.T, c *redis.Client, conns int) {
	t.Helper()
	for deadline := time.Now().Add(wait); c.PoolStats().IdleConns < uint32(conns); {
		require.Less(t, time.Now(), deadline, "connections can be made")
		held := make([]*redis.Conn, conns)
		for i := range held {
			held[i] = c.Conn()
			_ = held[i].Ping(context.Background()).Err() // a connection that failed is dropped
		}
		for _, conn := range held {
			require.NoError(t, conn.Close())
		}
	}
}

// connected returns how many connections c's server has.
func connected(t *testing.T, c *redis.Client) string {
	t.Helper()
	info, err := c.InfoMap(context.Background(), "clients").Result()
	require.NoError(t, err)
	return info["Clients"]["connected_clients"]
}

// The server executes every command, and its replies are lost. Whatever the
// client's options are, one Allow must take one token.
func TestAllowTakesItsTokensAtMostOnce(t *testing.T) {
	server := redistest.Start(t)
	direct := server.Client(t)
	const conns, retries = 8, 3
	for _, c := range []struct {
		name           string
		readTimeout    time.Duration
		contextTimeout bool
	}{
		{"the client gives up first", 50 * time.Millisecond, false},
		{"the client gives up first, with ContextTimeoutEnabled", 50 * time.Millisecond, true},
		{"the store gives up first", time.Minute, false},
		{"the store gives up first, with ContextTimeoutEnabled", time.Minute, true},
	} {
		t.Run(c.name, func(t *testing.T) {
			others := connected(t, direct)
			proxy := faultproxy.New(t, server.Addr)
			client := redis.NewClient(&redis.Options{
				Addr: proxy.Addr, MaxRetries: retries, MinRetryBackoff: -1, MaxRetryBackoff: -1,
				ReadTimeout: c.readTimeout, ContextTimeoutEnabled: c.contextTimeout,
			})
			defer client.Close() // a second time does no harm
			warm(t, client, conns)
			prefix := redistest.Prefix()
			policy := core.Policy{Name: "once", Limits: []core.Limit{core.PerDay(1000)}, OnFailure: core.FailClosed}
			const timeout = 500 * time.Millisecond
			lossy := core.Must(core.NewLimiter(redisstore.New(client, redisstore.WithPrefix(prefix), redisstore.WithTimeout(timeout)), policy))
			honest := core.Must(core.NewLimiter(redisstore.New(direct, redisstore.WithPrefix(prefix), patient), policy))
			_, err := honest.Peek(context.Background(), "script is cached now")
			require.NoError(t, err)

			proxy.Set(faultproxy.HalfOpen)
			if c.readTimeout < timeout {
				counter := fmt.Sprint(prefix, "premise")
				require.Error(t, client.Incr(context.Background(), counter).Err())
				require.Eventually(t, func() bool {
					n, _ := direct.Get(context.Background(), counter).Int()
					return n == 1+retries
				}, wait, tick, "premise: go-redis sends a plain command again")
			}
			_, err = lossy.Allow(context.Background(), "k")
			require.ErrorIs(t, err, core.ErrUnavailable)

			require.NoError(t, client.Close())
			require.Eventually(t, func() bool { return connected(t, direct) == others }, wait, tick,
				"premise: the server has executed everything once the client has no connection left")
			res, err := honest.Peek(context.Background(), "k")
			require.NoError(t, err)
			assert.Equal(t, int64(999), res.Remaining, "one Allow must take one token, however often its reply is lost")
		})
	}
}
