package grpclimit_test

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	"github.com/tokenbucket-go/ratelimit/core"
	"github.com/tokenbucket-go/ratelimit/core/redisstore"
	"github.com/tokenbucket-go/ratelimit/grpclimit"
	"github.com/tokenbucket-go/ratelimit/internal/limittest"
	"github.com/tokenbucket-go/ratelimit/internal/redistest"
)

// all is a key that all calls have.
func all(*grpclimit.Call) (string, error) { return "all", nil }

// talks opens streams at once, each of which says something a number of times,
// without waiting for answers.
func talks(ctx context.Context, t *testing.T, conn *grpc.ClientConn, streams, times int) {
	t.Helper()
	var wg sync.WaitGroup
	defer wg.Wait()
	for i := range streams {
		cs := open(metadata.AppendToOutgoingContext(ctx, "stream", string(rune('a'+i))), t, conn)
		wg.Go(func() {
			for range times {
				assert.NoError(t, cs.SendMsg(hello()))
			}
			assert.NoError(t, cs.CloseSend())
			for range times {
				if !assert.NoError(t, cs.RecvMsg(new(text)), "a message waits, and passes") {
					return
				}
			}
			_ = cs.RecvMsg(new(text))
		})
	}
}

func TestMessagesOfSeveralStreamsWait(t *testing.T) {
	const count, times, interval = 10, 5, 5 * time.Millisecond
	limits := []core.Limit{{Capacity: 1, RefillRate: 1, RefillInterval: interval}}
	rule := grpclimit.Rule{Limiter: limiterOf(core.Policy{Name: "messages", Limits: limits}), Key: all}
	other := grpclimit.Rule{Limiter: perHour("others", 1000), Key: all}
	for name, interceptor := range map[string]grpc.StreamServerInterceptor{
		"one limiter":      grpclimit.Stream(rule.Limiter, all, grpclimit.PerMessageWait()),
		"several limiters": grpclimit.StreamTogether([]grpclimit.Rule{other, rule}, grpclimit.PerMessageWait()),
	} {
		t.Run(name, func(t *testing.T) {
			start := time.Now()
			talks(within(t), t, streams(t, handlers{}, interceptor), count, times)
			assert.GreaterOrEqual(t, time.Since(start), (count*times-2)*interval, "no message passes without its token")
		})
	}
}

func TestMessagesWaitForASlot(t *testing.T) {
	limiter := limiterOf(core.Policy{Name: "slots", Limits: []core.Limit{core.InFlight(1)}})
	var atWork, handled atomic.Int32
	h := handlers{talk: func(ss grpc.ServerStream) error {
		for m := new(text); ; {
			if err := ss.RecvMsg(m); err != nil {
				return ended(err)
			}
			assert.EqualValues(t, 1, atWork.Add(1), "one message is at work")
			time.Sleep(time.Millisecond) // so that others wait
			handled.Add(1)
			atWork.Add(-1)
			if err := ss.SendMsg(m); err != nil {
				return err
			}
		}
	}}
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second) // the slots' MaxHold is longer
	defer cancel()
	talks(ctx, t, streams(t, h, grpclimit.Stream(limiter, all, grpclimit.PerMessageWait())), 8, 5)
	assert.EqualValues(t, 40, handled.Load())
	limittest.ComesBack(t, limiter, "all", 1, "the slot is free in the end")
}

func TestAMessageThatWaitsIsDecidedOnce(t *testing.T) {
	limiter := limiterOf(core.Policy{Name: "messages", Limits: []core.Limit{{Capacity: 1, RefillRate: 1, RefillInterval: 20 * time.Millisecond}}})
	var keys, costs atomic.Int32
	key := func(*grpclimit.Call) (string, error) { keys.Add(1); return "all", nil }
	cost := grpclimit.WithCost(func(*grpclimit.Call) (int64, error) { costs.Add(1); return 1, nil })
	talks(within(t), t, streams(t, handlers{}, grpclimit.Stream(limiter, key, cost, grpclimit.PerMessageWait())), 3, 3)
	assert.EqualValues(t, 9, keys.Load(), "the key function is called once for each message")
	assert.EqualValues(t, 9, costs.Load(), "the cost function is called once for each message")
}

// A client that leaves during a wait takes nothing: neither for the message
// that waits, nor for those behind it.
func TestAMessageWhoseClientLeavesTakesNothing(t *testing.T) {
	c := limittest.ClockAt(time.Unix(1e9, 0))
	limiter := core.Must(core.NewLimiter(core.NewMemoryStore(core.WithClock(c.Now)), core.Policy{Name: "messages", Limits: []core.Limit{core.PerHour(1)}}))
	over := make(chan error, 2)
	h := handlers{talk: func(ss grpc.ServerStream) error {
		err := echo(ss)
		over <- err
		return err
	}}
	conn := streams(t, h, grpclimit.Stream(limiter, all, grpclimit.PerMessageWait()))
	ctx, cancel := context.WithCancel(t.Context())
	first, second := open(ctx, t, conn), open(ctx, t, conn)
	require.NoError(t, say(first))
	for _, cs := range []grpc.ClientStream{first, second} {
		require.NoError(t, cs.SendMsg(hello()))
	}
	time.Sleep(20 * time.Millisecond) // so that both wait
	cancel()
	for range 2 {
		assert.Equal(t, codes.Canceled, status.Code(<-over))
	}
	c.Move(time.Hour)
	assert.EqualValues(t, 1, limittest.Left(t, limiter, "all"))
}

// A policy that fails closed refuses messages while the store is away. The slot
// that a message had must not keep others waiting after that: its MaxHold is
// longer than any call.
func TestMessagesPassWhenTheStoreIsBack(t *testing.T) {
	server := redistest.Start(t)
	s, err := redisstore.Open("redis://"+server.Addr, redisstore.WithTimeout(time.Second), redisstore.WithBreaker(3, 10*time.Millisecond))
	require.NoError(t, err)
	t.Cleanup(func() { _ = s.Close() })
	limiter := core.Must(core.NewLimiter(s, core.Policy{
		Name: "slots", Limits: []core.Limit{core.InFlight(1).WithMaxHold(time.Hour)}, OnFailure: core.FailClosed,
	}))
	atWork, goOn := make(chan struct{}), make(chan struct{})
	h := handlers{talk: func(ss grpc.ServerStream) error {
		if err := ss.RecvMsg(new(text)); err != nil {
			return ended(err)
		}
		atWork <- struct{}{}
		<-goOn
		return ss.SendMsg(hello())
	}}
	conn := streams(t, h, grpclimit.Stream(limiter, all, grpclimit.PerMessageWait()))
	first := open(within(t), t, conn)
	require.NoError(t, first.SendMsg(hello()))
	<-atWork
	server.Pause()
	require.Eventually(t, func() bool {
		err := say(open(within(t), t, conn))
		assert.Equal(t, codes.Unavailable, status.Code(err), "a policy that fails closed refuses: %v", err)
		_, err = limiter.Peek(t.Context(), "all")
		return errors.Is(err, core.ErrBreakerOpen)
	}, time.Minute, time.Millisecond)
	goOn <- struct{}{}
	require.NoError(t, first.RecvMsg(new(text)))
	require.Error(t, first.RecvMsg(new(text)), "the stream is over, and its slot is released while the breaker is open")

	server.Resume()
	require.Eventually(t, func() bool {
		res, err := limiter.Peek(t.Context(), "all")
		return err == nil && res.Remaining == 1
	}, time.Minute, time.Millisecond, "the slot is free once the store is back")
	next := open(within(t), t, conn)
	require.NoError(t, next.SendMsg(hello()))
	<-atWork
	goOn <- struct{}{}
	require.NoError(t, next.RecvMsg(new(text)), "a message passes after the outage")
}
