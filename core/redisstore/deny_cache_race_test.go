package redisstore_test

import (
	"context"
	"errors"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/tokenbucket-go/ratelimit/core"
	"github.com/tokenbucket-go/ratelimit/core/redisstore"
	"github.com/tokenbucket-go/ratelimit/internal/limittest"
	"github.com/tokenbucket-go/ratelimit/internal/redistest"
)

// gateHook lets a test replace the sending of the next decision or reset.
type gateHook struct {
	redistest.Hook

	next atomic.Pointer[func(send func() error) error]
}

func (g *gateHook) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error {
		send := func() error { return next(ctx, cmd) }
		if strings.HasPrefix(cmd.Name(), "eval") || cmd.Name() == "del" {
			if do := g.next.Swap(nil); do != nil {
				err := (*do)(send)
				cmd.SetErr(err)
				return err
			}
		}
		return send()
	}
}

// held is a command in flight that waits for release.
type held struct {
	reached, release chan struct{}
}

func newHeld() held { return held{make(chan struct{}), make(chan struct{})} }

func (h held) wait() {
	close(h.reached)
	<-h.release
}

// beforeServer holds the next command before it is sent. afterServer holds its
// reply.
func (g *gateHook) beforeServer() held {
	h := newHeld()
	do := func(send func() error) error { h.wait(); return send() }
	g.next.Store(&do)
	return h
}

func (g *gateHook) afterServer() held {
	h := newHeld()
	do := func(send func() error) error { err := send(); h.wait(); return err }
	g.next.Store(&do)
	return h
}

// lost makes the next command fail as if its reply were lost.
func (g *gateHook) lost() {
	do := func(func() error) error { return errors.New("read: i/o timeout") }
	g.next.Store(&do)
}

// raceBench is a limiter with a deny cache, and a gate between it and Redis.
type raceBench struct {
	*testing.T

	gate   *gateHook
	l      *core.Limiter
	prefix string
	client *redis.Client
}

func newRaceBench(t *testing.T, left int64) *raceBench {
	t.Helper()
	b := &raceBench{T: t, gate: &gateHook{}, prefix: redistest.Prefix(), client: redistest.Client(t)}
	b.client.AddHook(b.gate)
	b.l = limittest.Limiter(t, redisstore.New(b.client, redisstore.WithPrefix(b.prefix), longTimeout, redisstore.WithDenyCache(time.Hour)), "api", core.PerDay(10))
	limittest.Use(t, b.l, "k", 10-left)
	return b
}

func (b *raceBench) asks(cost int64, allowed bool, source core.Source, rule string) {
	b.Helper()
	res, err := b.l.AllowN(context.Background(), "k", cost)
	require.NoError(b, err)
	require.Equal(b, allowed, res.Allowed, rule)
	require.Equal(b, source, res.Source, rule)
}

func TestDenialOlderThanAGrantIsNotCached(t *testing.T) {
	b := newRaceBench(t, 1)
	denial := b.gate.afterServer()
	done := make(chan core.Result)
	go func() {
		res, _ := b.l.AllowN(context.Background(), "k", 3)
		done <- res
	}()
	<-denial.reached
	b.asks(1, true, core.FromStore, "premise: a grant while the denial is on its way back")
	close(denial.release)
	res := <-done
	require.False(t, res.Allowed, "premise: a denial")
	b.asks(3, false, core.FromStore, "a denial older than a grant must not be cached")
	b.asks(3, false, core.FromDenyCache, "a denial after the grant is cached")
}

// A refund or reset may still be executed after its caller has left. A denial
// older than it must not be repeated.
func TestDenialOlderThanReturnedTokensIsNotCached(t *testing.T) {
	gives := map[string]func(*raceBench, context.Context) error{
		"Refund": func(b *raceBench, ctx context.Context) error { return b.l.Refund(ctx, "k", 1) },
		"Reset":  func(b *raceBench, ctx context.Context) error { return b.l.Reset(ctx, "k") },
	}
	for name, give := range gives {
		t.Run(name+" whose caller leaves", func(t *testing.T) {
			b := newRaceBench(t, 0)
			b.asks(1, false, core.FromStore, "premise: empty")
			b.asks(1, false, core.FromDenyCache, "premise: the denial is repeated")
			sent := b.gate.beforeServer()
			ctx, leave := context.WithCancel(context.Background())
			done := make(chan error)
			go func() { done <- give(b, ctx) }()
			<-sent.reached
			b.asks(1, false, core.FromStore, "while tokens are being returned, denials are not repeated")
			leave()
			require.ErrorIs(t, <-done, context.Canceled)
			for range 3 {
				b.asks(1, false, core.FromStore, "nor after the caller of the refund has left")
			}
			close(sent.release)
			require.Eventually(t, func() bool {
				res, err := b.l.Allow(context.Background(), "k")
				return err == nil && (res.Allowed || !assert.Equal(t, core.FromStore, res.Source))
			}, 30*time.Second, time.Millisecond, "they are there when Redis has them")
		})
		t.Run(name+" whose reply is lost", func(t *testing.T) {
			b := newRaceBench(t, 0)
			b.asks(1, false, core.FromStore, "premise: empty")
			b.gate.lost()
			require.ErrorIs(t, give(b, context.Background()), core.ErrUnavailable)
			for range 3 {
				b.asks(1, false, core.FromStore, "the server may have it in its queue")
			}
			b2 := *b // what is in the queue is executed at last
			b2.l = limittest.Limiter(t, redisstore.New(b.client, redisstore.WithPrefix(b.prefix), longTimeout), "api", core.PerDay(10))
			require.NoError(t, give(&b2, context.Background()))
			b.asks(1, true, core.FromStore, "the tokens came")
		})
		t.Run(name+" while a denial is on its way back", func(t *testing.T) {
			b := newRaceBench(t, 0)
			denial := b.gate.afterServer()
			done := make(chan error)
			go func() {
				_, err := b.l.Allow(context.Background(), "k")
				done <- err
			}()
			<-denial.reached
			require.NoError(t, give(b, context.Background()))
			close(denial.release)
			require.NoError(t, <-done)
			b.asks(1, true, core.FromStore, "a denial older than the returned tokens must not be cached")
		})
	}
}
