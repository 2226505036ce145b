package chaos_test

import (
	"context"
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

// The network drops calls, and their callers' contexts end. That is no failure of
// the store. Nobody waits for a client with a hook, which might take any time. A
// client of one server returns in time, so callers wait for it themselves: until
// their deadline, or if they are cancelled, until their call ends with the
// store's timeout.
func TestCanceledRequestsAreNoOutage(t *testing.T) {
	canceled := func() (context.Context, context.CancelFunc) {
		ctx, cancel := context.WithCancel(context.Background())
		time.AfterFunc(10*time.Millisecond, cancel)
		return ctx, cancel
	}
	late := func() (context.Context, context.CancelFunc) {
		return context.WithTimeout(context.Background(), 10*time.Millisecond)
	}
	for _, c := range []struct {
		name         string
		hook, minds  bool
		storeTimeout time.Duration
		context      func() (context.Context, context.CancelFunc)
		want         error
		times        int           // of a client with a hook, more than it takes to open the breaker
		within       time.Duration // far from what it must not wait for
	}{
		{"a hook, cancelled", true, false, 20 * time.Second, canceled, context.Canceled, 20, 10 * time.Second},
		{"a hook, deadline", true, false, 20 * time.Second, late, context.DeadlineExceeded, 20, 10 * time.Second},
		{"cancelled", false, false, 2 * time.Second, canceled, context.Canceled, 1, clientTimeout / 2},
		{"cancelled, ContextTimeoutEnabled", false, true, 2 * time.Second, canceled, context.Canceled, 1, clientTimeout / 2},
		{"deadline", false, false, 20 * time.Second, late, context.DeadlineExceeded, 1, 10 * time.Second},
		{"deadline, ContextTimeoutEnabled", false, true, 20 * time.Second, late, context.DeadlineExceeded, 1, 10 * time.Second},
	} {
		t.Run(c.name, func(t *testing.T) {
			beside(t)
			b := newBench(t, func(o *redis.Options) { o.ContextTimeoutEnabled = c.minds })
			if c.hook {
				b.client.AddHook(redistest.Hook{})
			}
			b.store = redisstore.New(b.client, redisstore.WithTimeout(c.storeTimeout))
			l := b.limiter(t, core.FailLocal)
			untilRedisDecides(t, l, "premise: Redis decides")
			b.proxy.Set(faultproxy.BlackHole)
			for range c.times {
				ctx, cancel := c.context()
				began := time.Now()
				res, err := l.Allow(ctx, "k")
				cancel()
				require.ErrorIs(t, err, c.want)
				require.NotErrorIs(t, err, core.ErrUnavailable)
				assert.False(t, res.Allowed, "an error must not allow the request")
				assert.Less(t, time.Since(began), c.within, "it returns when its context ends, or with the store's timeout")
			}
			b.proxy.Set(faultproxy.Reset) // so that stuck calls end
			b.proxy.Set(faultproxy.None)
			res, err := l.Allow(context.Background(), "k")
			require.NoError(t, err)
			assert.NotErrorIs(t, res.Cause, core.ErrBreakerOpen, "callers who left opened no breaker")
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
