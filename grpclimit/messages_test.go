package grpclimit_test

import (
	"context"
	"errors"
	"io"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/tokenbucket-go/ratelimit/core"
	"github.com/tokenbucket-go/ratelimit/grpclimit"
	"github.com/tokenbucket-go/ratelimit/internal/limittest"
)

// ended is what a handler returns when the client has closed its side.
func ended(err error) error {
	if errors.Is(err, io.EOF) {
		return nil
	}
	return err
}

func TestAStreamPaysWhenItOpens(t *testing.T) {
	conn := streams(t, handlers{}, grpclimit.Stream(perHour("streams", 1), grpclimit.ByPeer()))
	cs := open(within(t), t, conn)
	for range 5 {
		require.NoError(t, say(cs), "messages are free")
	}
	header, err := cs.Header()
	require.NoError(t, err)
	assert.Equal(t, []string{`"streams";q=1;w=3600`}, header.Get("ratelimit-policy"), "the fields are header metadata")
	assert.Equal(t, codes.ResourceExhausted, status.Code(say(open(within(t), t, conn))), "another stream is denied")
}

func TestEachMessagePays(t *testing.T) {
	limiter := perHour("messages", 2)
	handlerGot, over := make(chan error, 2), make(chan struct{})
	h := handlers{talk: func(ss grpc.ServerStream) error {
		defer close(over)
		_ = echo(ss)
		handlerGot <- ss.RecvMsg(new(text))
		<-ss.Context().Done() // a handler that waits for something else notices it
		return nil
	}}
	conn := streams(t, h, grpclimit.Stream(limiter, byKey, grpclimit.PerMessage()))
	cs := open(as(within(t), "a"), t, conn)
	require.NoError(t, say(cs), "the opening is free, the first message pays")
	require.NoError(t, say(cs))
	err := say(cs)
	require.Equal(t, codes.ResourceExhausted, status.Code(err), "a denied message ends the stream, whatever the handler returns")
	retry, limits := details(err)
	assert.NotNil(t, retry)
	assert.Equal(t, []string{"messages"}, limits)
	<-over
	assert.Equal(t, codes.ResourceExhausted, status.Code(<-handlerGot), "the handler gets the denial again")
	assert.Equal(t, []string{"-1"}, cs.Trailer().Get("grpc-retry-pushback-ms"))
}

func TestMessagesThatWait(t *testing.T) {
	const interval = 50 * time.Millisecond
	limiter := limiterOf(core.Policy{Name: "messages", Limits: []core.Limit{{Capacity: 1, RefillRate: 1, RefillInterval: interval}}})
	conn := streams(t, handlers{}, grpclimit.Stream(limiter, grpclimit.ByPeer(), grpclimit.PerMessageWait()))
	cs := open(within(t), t, conn)
	start := time.Now()
	for range 4 {
		require.NoError(t, say(cs), "a message waits, and passes")
	}
	assert.GreaterOrEqual(t, time.Since(start), 3*interval-time.Millisecond, "each message after the first waits for its token")
}

func TestAMessageThatCannotWaitEndsTheStream(t *testing.T) {
	hour := perHour("messages", 1)
	for name, options := range map[string][]grpclimit.Option{
		"the deadline comes first": {grpclimit.PerMessageWait()},
		"no wait is long enough":   {grpclimit.PerMessageWait(), grpclimit.WithCost(func(*grpclimit.Call) (int64, error) { return 2, nil })},
	} {
		t.Run(name, func(t *testing.T) {
			cs := open(within(t), t, streams(t, handlers{}, grpclimit.Stream(hour, grpclimit.ByPeer(), options...)))
			_ = say(cs)
			assert.Equal(t, codes.ResourceExhausted, status.Code(say(cs)))
		})
	}
}

func TestAWaitEndsWithTheCall(t *testing.T) {
	over := make(chan error, 1)
	h := handlers{talk: func(ss grpc.ServerStream) error {
		err := echo(ss)
		over <- err
		return err
	}}
	denied := make(chan struct{})
	hour := core.Must(core.NewLimiter(core.NewMemoryStore(), core.Policy{Name: "messages", Limits: []core.Limit{core.PerHour(1)}},
		core.WithObserver(func(_ context.Context, o core.Observation) {
			if o.Outcome == core.OutcomeDenied {
				close(denied)
			}
		})))
	conn := streams(t, h, grpclimit.Stream(hour, grpclimit.ByPeer(), grpclimit.PerMessageWait()))
	ctx, cancel := context.WithCancel(t.Context())
	cs := open(ctx, t, conn)
	require.NoError(t, say(cs))
	_ = cs.SendMsg(new(text))
	<-denied
	cancel()
	assert.Equal(t, codes.Canceled, status.Code(<-over), "a client that has gone does not keep the handler")
}

func TestMessagesSettleAndHoldSlots(t *testing.T) {
	limiter := limiterOf(core.Policy{Name: "messages", Limits: []core.Limit{core.InFlight(1)}})
	key := func(*grpclimit.Call) (string, error) { return "all", nil }
	atWork, next := make(chan int64), make(chan struct{})
	h := handlers{talk: func(ss grpc.ServerStream) error {
		for {
			if err := ss.RecvMsg(new(text)); err != nil {
				return ended(err)
			}
			atWork <- limittest.Left(t, limiter, "all")
			<-next
		}
	}}
	var settled atomic.Int32
	settles := grpclimit.WithSettle(func(c *grpclimit.Call, code codes.Code) core.Units {
		settled.Add(1)
		assert.Equal(t, "hello", c.Message.(*text).GetValue())
		assert.Equal(t, codes.OK, code)
		return nil
	})
	conn := streams(t, h, grpclimit.Stream(limiter, key, grpclimit.PerMessage(), settles))
	cs := open(within(t), t, conn)
	for range 2 {
		limittest.ComesBack(t, limiter, "all", 1, "a message that is over has released its slot")
		require.NoError(t, cs.SendMsg(hello()))
		assert.EqualValues(t, 0, <-atWork, "a message at work holds its slot")
		next <- struct{}{}
	}
	require.NoError(t, cs.CloseSend())
	require.ErrorIs(t, cs.RecvMsg(new(text)), io.EOF)
	limittest.ComesBack(t, limiter, "all", 1, "the last message's slot comes back")
	assert.EqualValues(t, 2, settled.Load(), "each message is settled once")
}

// One limiter decides openings, and another one messages.
func TestOpeningsAndMessagesHaveLimitersOfTheirOwn(t *testing.T) {
	opens, messages := perHour("opens", 2), perHour("messages", 3)
	key := func(*grpclimit.Call) (string, error) { return "all", nil }
	h := handlers{talk: func(ss grpc.ServerStream) error {
		err := echo(ss)
		assert.Len(t, grpclimit.AllFromContext(ss.Context()), 2, "the decisions about the opening and about the newest message")
		return err
	}}
	inOrder := []grpc.StreamServerInterceptor{grpclimit.Stream(opens, key), grpclimit.Stream(messages, key, grpclimit.PerMessage())}
	for i, conn := range []*grpc.ClientConn{streams(t, h, inOrder...), streams(t, h, inOrder[1], inOrder[0])} {
		require.NoError(t, messages.Reset(t.Context(), "all"))
		cs := open(within(t), t, conn)
		for range 3 {
			require.NoError(t, say(cs))
		}
		assert.Equal(t, codes.ResourceExhausted, status.Code(say(cs)), "no message is left")
		assert.EqualValues(t, 1-i, limittest.Left(t, opens, "all"), "messages take nothing of the limiter of openings")
	}
}

// Both limiters of messages see each message.
func TestMessagesPayToSeveralLimiters(t *testing.T) {
	a, b := perHour("a", 5), perHour("b", 5)
	key := func(*grpclimit.Call) (string, error) { return "all", nil }
	h := handlers{talk: func(ss grpc.ServerStream) error {
		for {
			m := new(text)
			if err := ss.RecvMsg(m); err != nil {
				return ended(err)
			}
			assert.Len(t, grpclimit.AllFromContext(ss.Context()), 2, "decisions about messages that are over are not kept")
			if err := ss.SendMsg(m); err != nil {
				return err
			}
		}
	}}
	cs := open(within(t), t, streams(t, h, grpclimit.Stream(a, key, grpclimit.PerMessage()), grpclimit.Stream(b, key, grpclimit.PerMessage())))
	for range 3 {
		require.NoError(t, say(cs))
	}
	require.NoError(t, cs.CloseSend())
	require.ErrorIs(t, cs.RecvMsg(new(text)), io.EOF)
	assert.EqualValues(t, 2, limittest.Left(t, a, "all"))
	assert.EqualValues(t, 2, limittest.Left(t, b, "all"))
}

// The handler returns while a goroutine of it receives.
func TestAMessageThatComesAfterTheHandlerReleasesItsSlot(t *testing.T) {
	limiter := limiterOf(core.Policy{Name: "messages", Limits: []core.Limit{core.InFlight(1)}})
	key := func(*grpclimit.Call) (string, error) { return "all", nil }
	received, returned := make(chan error, 1), make(chan struct{})
	late := func(server any, ss grpc.ServerStream, _ *grpc.StreamServerInfo, handler grpc.StreamHandler) error {
		return handler(server, lateStream{ss, returned})
	}
	h := handlers{talk: func(ss grpc.ServerStream) error {
		go func() { received <- ss.RecvMsg(new(text)) }()
		return nil
	}}
	ends := func(server any, ss grpc.ServerStream, info *grpc.StreamServerInfo, handler grpc.StreamHandler) error {
		err := grpclimit.Stream(limiter, key, grpclimit.PerMessage())(server, ss, info, handler)
		close(returned)
		<-received
		return err
	}
	cs := open(within(t), t, streams(t, h, late, ends))
	_ = cs.SendMsg(hello())
	require.ErrorIs(t, cs.RecvMsg(new(text)), io.EOF)
	limittest.ComesBack(t, limiter, "all", 1, "a message that nobody handles holds no slot")
}

// lateStream receives a message only when the handler has returned.
type lateStream struct {
	grpc.ServerStream
	returned chan struct{}
}

func (s lateStream) RecvMsg(m any) error {
	<-s.returned
	m.(*text).Value = "hello"
	return nil
}

// A service that limits each method by API key, and streams by address, as apps
// write it.
func TestAServiceWithLimitsOfCallsAndStreams(t *testing.T) {
	key := grpclimit.Join(grpclimit.ByMethod(), byKey)
	conn := serve(t, handlers{}, []grpc.UnaryServerInterceptor{grpclimit.Unary(perHour("calls", 2), key)},
		[]grpc.StreamServerInterceptor{grpclimit.Stream(perHour("streams", 1), grpclimit.ByPeer())})
	ctx := within(t)
	first := call(as(ctx, "a"), conn)
	require.NoError(t, first.err)
	assert.Equal(t, []string{`"calls";q=2;w=3600`}, first.header.Get("ratelimit-policy"))
	require.NoError(t, call(as(ctx, "a"), conn).err)
	third := call(as(ctx, "a"), conn).err
	assert.Equal(t, codes.ResourceExhausted, status.Code(third))
	retry, limits := details(third)
	wait := retry.GetRetryDelay().AsDuration()
	assert.True(t, wait > 20*time.Minute && wait <= 30*time.Minute, "half an hour for a token: %v", wait)
	assert.Equal(t, []string{"calls"}, limits)
	assert.NoError(t, call(as(ctx, "b"), conn).err, "another key")
	assert.Equal(t, codes.InvalidArgument, status.Code(call(ctx, conn).err), "no key")
	assert.NoError(t, say(open(ctx, t, conn)), "a stream")
	assert.Equal(t, codes.ResourceExhausted, status.Code(say(open(ctx, t, conn))), "another one")
}
