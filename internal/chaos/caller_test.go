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
)

// The network drops a call, and the caller's context ends. The request must
// return at once with the context's error, and must not count as a failure of
// the store. The client has a hook, so that nobody waits for it.
func TestCanceledRequestsAreNoOutage(t *testing.T) {
	b := newBench(t)
	b.client.AddHook(noHook{})
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
	assert.Equal(t, core.FromStore, res.Source, "callers who left opened no breaker")
}

// noHook changes nothing. But a hook might take any time.
type noHook struct{}

func (noHook) DialHook(next redis.DialHook) redis.DialHook          { return next }
func (noHook) ProcessHook(next redis.ProcessHook) redis.ProcessHook { return next }
func (noHook) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return next
}

// A client of one server returns in time, so callers wait for it themselves.
// The network drops their calls. A deadline is kept; a caller that is cancelled
// leaves when its call ends, with the store's timeout.
func TestCallerWaitsForItsOwnCall(t *testing.T) {
	for _, minds := range []bool{false, true} {
		t.Run(fmt.Sprintf("ContextTimeoutEnabled %v", minds), func(t *testing.T) {
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
			t.Parallel() // it mostly waits
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
