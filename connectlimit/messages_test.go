package connectlimit_test

import (
	"context"
	"sync/atomic"
	"testing"
	"time"

	"connectrpc.com/connect"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/tokenbucket-go/ratelimit/connectlimit"
	"github.com/tokenbucket-go/ratelimit/core"
	"github.com/tokenbucket-go/ratelimit/internal/limittest"
)

func TestEachMessagePays(t *testing.T) {
	handlerGot, over := make(chan error, 1), make(chan struct{}, 1)
	h := handlers{talk: func(ctx context.Context, s *bidi) error {
		_ = echo(ctx, s)
		_, err := s.Receive()
		handlerGot <- err
		<-ctx.Done() // a handler that waits for something else notices it
		over <- struct{}{}
		return nil
	}}
	speak(t, serve(t, h, connectlimit.New(perHour("messages", 2), byKey, connectlimit.PerMessage())), func(t *testing.T, s server) {
		cs := s.open(t, s.protocol)
		require.NoError(t, say(cs), "the opening is free, the first message pays")
		require.NoError(t, say(cs))
		err := say(cs)
		require.Equal(t, connect.CodeResourceExhausted, connect.CodeOf(err), "a denied message ends the stream, whatever the handler returns")
		retry, limits := details(t, err)
		assert.NotNil(t, retry)
		assert.Equal(t, []string{"messages"}, limits)
		<-over
		assert.Equal(t, connect.CodeResourceExhausted, connect.CodeOf(<-handlerGot), "the handler gets the denial again")
	})
}

func TestUnaryCallsPayAlsoWithPerMessage(t *testing.T) {
	s := serve(t, handlers{}, connectlimit.New(perHour("messages", 1), all, connectlimit.PerMessage()))
	require.NoError(t, s.call(t, "").err)
	assert.Equal(t, connect.CodeResourceExhausted, connect.CodeOf(s.call(t, "").err))
}

func TestMessagesThatWait(t *testing.T) {
	const interval = 50 * time.Millisecond
	speak(t, serve(t, handlers{}), func(t *testing.T, s server) {
		limiter := limiterOf(core.Policy{Name: "messages", Limits: []core.Limit{{Capacity: 1, RefillRate: 1, RefillInterval: interval}}})
		protocol := s.protocol
		s = serve(t, handlers{}, connectlimit.New(limiter, all, connectlimit.PerMessageWait()))
		s.protocol = protocol
		cs := s.open(t, "")
		start := time.Now()
		for range 4 {
			require.NoError(t, say(cs), "a message waits, and passes")
		}
		assert.GreaterOrEqual(t, time.Since(start), 3*interval-time.Millisecond, "each message after the first waits for its token")
	})
}

func TestAMessageWaitsForASlotUntilOneIsReleased(t *testing.T) {
	limiter := limiterOf(core.Policy{Name: "messages", Limits: []core.Limit{core.InFlight(1)}})
	started, end := make(chan struct{}, 2), make(chan struct{})
	h := handlers{talk: func(_ context.Context, s *bidi) error {
		m, err := s.Receive()
		if err != nil {
			return err
		}
		started <- struct{}{}
		<-end
		return s.Send(m)
	}}
	s := serve(t, h, connectlimit.New(limiter, all, connectlimit.PerMessageWait()))
	require.NoError(t, s.open(t, "").Send(hello()))
	<-started
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second) // less than MaxHold
	t.Cleanup(cancel)
	waiting := s.openWithin(ctx, "")
	require.NoError(t, waiting.Send(hello()))
	time.Sleep(50 * time.Millisecond) // the message is denied meanwhile
	require.Empty(t, started, "the premise: the message waits")
	start := time.Now()
	close(end)
	_, err := waiting.Receive()
	require.NoError(t, err, "the slot came back before the call's deadline")
	assert.Less(t, time.Since(start), 10*time.Second, "a message does not wait until MaxHold")
}

func TestAMessageThatCannotWaitEndsTheStream(t *testing.T) {
	for name, options := range map[string][]connectlimit.Option{
		"the deadline comes first": {connectlimit.PerMessageWait()},
		"no wait is long enough":   {connectlimit.PerMessageWait(), connectlimit.WithCost(func(*connectlimit.Call) (int64, error) { return 2, nil })},
	} {
		t.Run(name, func(t *testing.T) {
			cs := serve(t, handlers{}, connectlimit.New(perHour("messages", 1), all, options...)).open(t, "")
			_ = say(cs)
			assert.Equal(t, connect.CodeResourceExhausted, connect.CodeOf(say(cs)))
		})
	}
}

func TestAWaitEndsWithTheCall(t *testing.T) {
	over, denied := make(chan error, 1), make(chan struct{}, 1)
	h := handlers{talk: func(ctx context.Context, s *bidi) error {
		err := echo(ctx, s)
		over <- err
		return err
	}}
	hour := core.Must(core.NewLimiter(core.NewMemoryStore(), core.Policy{Name: "messages", Limits: []core.Limit{core.PerHour(1)}},
		core.WithObserver(func(_ context.Context, o core.Observation) {
			if o.Outcome == core.OutcomeDenied {
				denied <- struct{}{}
			}
		})))
	s := serve(t, h, connectlimit.New(hour, all, connectlimit.PerMessageWait()))
	ctx, cancel := context.WithCancel(t.Context())
	cs := s.openWithin(ctx, "")
	require.NoError(t, say(cs))
	_ = cs.Send(hello())
	<-denied
	cancel()
	_ = cs.CloseResponse()
	assert.Equal(t, connect.CodeCanceled, connect.CodeOf(<-over), "a client that has gone does not keep the handler")
}

func TestMessagesSettleAndHoldSlots(t *testing.T) {
	limiter := limiterOf(core.Policy{Name: "messages", Limits: []core.Limit{core.InFlight(1)}})
	atWork, next := make(chan int64), make(chan struct{})
	h := handlers{talk: func(_ context.Context, s *bidi) error {
		for {
			if _, err := s.Receive(); err != nil {
				return ended(err)
			}
			atWork <- limittest.Left(t, limiter, "all")
			<-next
		}
	}}
	var settled atomic.Int32
	settles := connectlimit.WithSettle(func(c *connectlimit.Call, code connect.Code) core.Units {
		settled.Add(1)
		assert.Equal(t, "hello", c.Message.(*text).GetValue())
		assert.Zero(t, code)
		return nil
	})
	cs := serve(t, h, connectlimit.New(limiter, all, connectlimit.PerMessage(), settles)).open(t, "")
	for range 2 {
		limittest.ComesBack(t, limiter, "all", 1, "a message that is over has released its slot")
		require.NoError(t, cs.Send(hello()))
		assert.EqualValues(t, 0, <-atWork, "a message at work holds its slot")
		next <- struct{}{}
	}
	require.NoError(t, closed(cs))
	limittest.ComesBack(t, limiter, "all", 1, "the last message's slot comes back")
	assert.EqualValues(t, 2, settled.Load(), "each message is settled once")
}

// Connect receives the request of such a stream before the handler runs, and
// looks for the end of it.
func TestTheMessageOfAStreamOfTheServerIsOverWithItsHandler(t *testing.T) {
	limiter := limiterOf(core.Policy{Name: "messages", Limits: []core.Limit{core.InFlight(1)}})
	var held int64
	h := handlers{count: func(context.Context, *request, *connect.ServerStream[text]) error {
		held = limittest.Left(t, limiter, "all")
		return connect.NewError(connect.CodeNotFound, nil)
	}}
	codes := make(chan connect.Code, 1)
	refund := connectlimit.WithRefund(func(c *connectlimit.Call, code connect.Code) bool {
		assert.Equal(t, "hello", c.Message.(*text).GetValue())
		codes <- code
		return false
	})
	speak(t, serve(t, h, connectlimit.New(limiter, all, connectlimit.PerMessage(), refund)), func(t *testing.T, s server) {
		limittest.ComesBack(t, limiter, "all", 1, "the premise: the slot is free")
		cs, err := s.client(count, nil).CallServerStream(within(t), connect.NewRequest(hello()))
		require.NoError(t, err)
		require.False(t, cs.Receive())
		require.Equal(t, connect.CodeNotFound, connect.CodeOf(cs.Err()))
		assert.Zero(t, held, "the message holds its slot while the handler is at work")
		assert.Equal(t, connect.CodeNotFound, <-codes, "it ends with the code of the handler")
	})
}

func TestMessagesOfStreamsOfOneSidePay(t *testing.T) {
	speak(t, serve(t, handlers{}, connectlimit.New(perHour("messages", 2), connectlimit.Join(byKey, connectlimit.ByMethod()), connectlimit.PerMessage())), func(t *testing.T, s server) {
		for i := range 3 {
			req := connect.NewRequest(hello())
			req.Header().Set("X-Api-Key", s.protocol)
			cs, err := s.client(count, nil).CallServerStream(within(t), req)
			require.NoError(t, err)
			for cs.Receive() {
			}
			if i < 2 {
				require.NoError(t, cs.Err(), "its request is its only message")
			} else {
				require.Equal(t, connect.CodeResourceExhausted, connect.CodeOf(cs.Err()))
			}
		}
		in := s.client(gather, nil).CallClientStream(within(t))
		in.RequestHeader().Set("X-Api-Key", s.protocol)
		for range 3 {
			_ = in.Send(hello()) // CloseAndReceive has the error
		}
		_, err := in.CloseAndReceive()
		assert.Equal(t, connect.CodeResourceExhausted, connect.CodeOf(err), "each message of the client pays")
	})
}

// One limiter decides openings, and another one messages.
func TestOpeningsAndMessagesHaveLimitersOfTheirOwn(t *testing.T) {
	opens, messages := perHour("opens", 2), perHour("messages", 3)
	h := handlers{talk: func(ctx context.Context, s *bidi) error {
		err := echo(ctx, s)
		assert.Len(t, connectlimit.AllFromContext(ctx), 2, "the decisions about the opening and about the newest message")
		return err
	}}
	a, b := connectlimit.New(opens, all), connectlimit.New(messages, all, connectlimit.PerMessage())
	for i, s := range []server{serve(t, h, a, b), serve(t, h, b, a)} {
		require.NoError(t, messages.Reset(t.Context(), "all"))
		cs := s.open(t, "")
		for range 3 {
			require.NoError(t, say(cs))
		}
		assert.Equal(t, connect.CodeResourceExhausted, connect.CodeOf(say(cs)), "no message is left")
		assert.EqualValues(t, 1-i, limittest.Left(t, opens, "all"), "messages take nothing of the limiter of openings")
		assert.Len(t, cs.ResponseHeader()["Ratelimit"], 1, "the header has the fields of the opening")
		assert.Len(t, cs.ResponseTrailer()["Ratelimit"], 1, "the trailer those of the denied message")
	}
}

// A handler may send from one goroutine and receive from another one: the race
// detector watches.
func TestADeniedMessageWhileOthersAreSent(t *testing.T) {
	h := handlers{talk: func(ctx context.Context, s *bidi) error {
		sent := make(chan struct{})
		go func() {
			defer close(sent)
			for ctx.Err() == nil {
				if s.Send(hello()) != nil {
					return
				}
			}
		}()
		err := echoless(s)
		<-sent
		return err
	}}
	speak(t, serve(t, h, connectlimit.New(perHour("messages", 3), byKey, connectlimit.PerMessage())), func(t *testing.T, s server) {
		cs := s.open(t, s.protocol)
		for range 4 { // no more: the end of the stream may come as an error of who still sends
			require.NoError(t, cs.Send(hello()))
		}
		var err error
		for err == nil {
			_, err = cs.Receive()
		}
		assert.Equal(t, connect.CodeResourceExhausted, connect.CodeOf(err))
		var e *connect.Error
		require.ErrorAs(t, err, &e)
		assert.Len(t, e.Meta()["Retry-After"], 1, "in the header, or if that has gone in the trailer")
	})
}

// echoless only receives.
func echoless(s *bidi) error {
	for {
		if _, err := s.Receive(); err != nil {
			return err
		}
	}
}
