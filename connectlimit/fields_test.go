package connectlimit_test

import (
	"context"
	"errors"
	"net/http"
	"strings"
	"sync"
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

var (
	byKey = connectlimit.ByHeader("x-api-key")
	all   = func(*connectlimit.Call) (string, error) { return "all", nil }
)

// fieldsOf are those of the limits.
var fieldsOf = []string{"Ratelimit-Policy", "Ratelimit"}

func TestFieldsAreHeadersOfACallThatSucceeds(t *testing.T) {
	speak(t, serve(t, handlers{}, connectlimit.New(perHour("calls", 2), connectlimit.ByPeer(), connectlimit.WithCost(free))), func(t *testing.T, s server) {
		a, res := s.send(t, "a")
		require.NoError(t, a.err)
		assert.Equal(t, []string{`"calls";q=2;w=3600`}, res.Header().Values("RateLimit-Policy"), "the values are those of HTTP")
		for _, field := range fieldsOf {
			assert.Len(t, a.header[field], 1, "%s is sent once, in the header", field)
			assert.Empty(t, a.trailer[field], "%s is sent once, in the header", field)
			assert.Empty(t, res.Trailer()[field], "%s is sent once, in the header", field)
		}
		assert.Empty(t, res.Header().Get("Retry-After"), "only refusals say when to retry")
	})
}

func free(*connectlimit.Call) (int64, error) { return 0, nil }

// whereFields checks that the fields of a call that failed, with what else a
// refusal has, are where the protocol has those of errors.
func whereFields(t *testing.T, protocol string, a answer, fields ...string) {
	t.Helper()
	for _, field := range fields {
		assert.Len(t, a.meta[field], 1, "clients see %s once in the error's metadata", field)
		switch protocol {
		case connect.ProtocolConnect:
			assert.Len(t, a.header[field], 1, "%s is a header: Connect has no others", field)
		case connect.ProtocolGRPC:
			assert.Len(t, a.trailer[field], 1, "%s is a trailer of a call that fails", field)
			assert.Empty(t, a.header[field], "%s is sent once", field)
		default: // an answer of gRPC-Web that has trailers alone sends these as headers of HTTP
			assert.Len(t, a.header[field], 1, "%s is a trailer of an answer with trailers alone", field)
			assert.NotEmpty(t, a.header.Get("Grpc-Status"), "the premise: there are trailers alone, with the status among them")
		}
	}
}

func TestFieldsOfACallThatFails(t *testing.T) {
	fails := handlers{once: func(context.Context, *request) (*response, error) {
		return nil, connect.NewError(connect.CodeUnavailable, errors.New("busy"))
	}}
	speak(t, serve(t, fails, connectlimit.New(perHour("calls", 1), byKey)), func(t *testing.T, s server) {
		a := s.call(t, s.protocol)
		require.Equal(t, connect.CodeUnavailable, connect.CodeOf(a.err))
		whereFields(t, s.protocol, a, fieldsOf...)
		assert.Empty(t, a.meta["Retry-After"], "the handler's error is no denial")
		a = s.call(t, s.protocol)
		require.Equal(t, connect.CodeResourceExhausted, connect.CodeOf(a.err))
		whereFields(t, s.protocol, a, append(fieldsOf, "Retry-After")...)
		if s.protocol == connect.ProtocolConnect {
			assert.Equal(t, "no-store", a.header.Get("Cache-Control"), "as with HTTP: Connect has calls by GET, which caches keep")
		} else {
			assert.NotContains(t, a.meta, "Cache-Control", "it is no trailer: net/http logs a line for each")
		}
	})
}

func TestRetryAfterIsWholeSecondsRoundedUp(t *testing.T) {
	for wait, want := range map[time.Duration]string{1500 * time.Millisecond: "2", 10 * time.Millisecond: "1", 3 * time.Second: "3"} {
		c := limittest.ClockAt(time.Unix(1e9, 0))
		limiter := core.Must(core.NewLimiter(core.NewMemoryStore(core.WithClock(c.Now)), core.Policy{
			Name: "calls", Headers: core.HeadersNone, Limits: []core.Limit{{Capacity: 1, RefillRate: 1, RefillInterval: wait}},
		}))
		speak(t, serve(t, handlers{}, connectlimit.New(limiter, byKey)), func(t *testing.T, s server) {
			require.NoError(t, s.call(t, s.protocol).err)
			a := s.call(t, s.protocol)
			assert.Equal(t, []string{want}, a.meta["Retry-After"], "%v are whole seconds, rounded up, at least 1", wait)
			retry, _ := details(t, a.err)
			require.NotNil(t, retry)
			assert.Equal(t, wait, retry.GetRetryDelay().AsDuration(), "RetryInfo has the exact time")
			cs := s.open(t, s.protocol)
			require.Error(t, say(cs))
			assert.Contains(t, []string{cs.ResponseHeader().Get("Retry-After"), cs.ResponseTrailer().Get("Retry-After")}, want, "streams too")
		})
	}
}

func TestFieldsOfStreamsThatOpen(t *testing.T) {
	speak(t, serve(t, handlers{}, connectlimit.New(perHour("streams", 1), byKey)), func(t *testing.T, s server) {
		cs := s.open(t, s.protocol)
		for range 3 {
			require.NoError(t, say(cs), "messages are free")
		}
		require.NoError(t, closed(cs))
		for _, field := range fieldsOf {
			assert.Len(t, cs.ResponseHeader()[field], 1, "%s is a header of the stream", field)
			assert.Empty(t, cs.ResponseTrailer()[field], "%s is sent once", field)
		}
		denied := s.open(t, s.protocol)
		err := say(denied)
		require.Equal(t, connect.CodeResourceExhausted, connect.CodeOf(err))
		in, other := denied.ResponseTrailer(), denied.ResponseHeader()
		if s.protocol == connect.ProtocolConnect { // whose headers have not gone
			in, other = other, in
		}
		for _, field := range append(fieldsOf, "Retry-After") {
			assert.Len(t, in[field], 1, "%s", field)
			if s.protocol != connect.ProtocolGRPCWeb { // an answer with trailers alone has them as headers of HTTP
				assert.Empty(t, other[field], "%s is sent once", field)
			}
			var e *connect.Error
			require.ErrorAs(t, err, &e)
			assert.Len(t, e.Meta()[field], 1, "clients see %s in the error's metadata", field)
		}
	})
}

// A stream of the server that sends nothing, and one of the client, have
// headers too.
func TestFieldsOfStreamsOfOneSide(t *testing.T) {
	h := handlers{count: func(context.Context, *request, *connect.ServerStream[text]) error { return nil }}
	speak(t, serve(t, h, connectlimit.New(perHour("streams", 9), all)), func(t *testing.T, s server) {
		cs, err := s.client(count, nil).CallServerStream(within(t), connect.NewRequest(hello()))
		require.NoError(t, err)
		require.False(t, cs.Receive())
		require.NoError(t, cs.Err())
		assert.Len(t, cs.ResponseHeader()["Ratelimit"], 1, "a stream without messages")
		in := s.client(gather, nil).CallClientStream(within(t))
		require.NoError(t, in.Send(hello()))
		res, err := in.CloseAndReceive()
		require.NoError(t, err)
		assert.Len(t, res.Header()["Ratelimit"], 1, "a stream of the client")
	})
}

func TestFieldsOfADeniedMessageAreTrailersOfAnOpenStream(t *testing.T) {
	rules := []connectlimit.Rule{{Limiter: perHour("messages", 1), Key: byKey}, {Limiter: perHour("service", 99), Key: all}}
	for name, limits := range map[string]connect.Interceptor{
		"New":         connectlimit.New(perHour("messages", 1), byKey, connectlimit.PerMessage()),
		"NewTogether": connectlimit.NewTogether(rules, connectlimit.PerMessage()),
	} {
		t.Run(name, func(t *testing.T) {
			speak(t, serve(t, handlers{}, limits), func(t *testing.T, s server) {
				cs := s.open(t, s.protocol)
				require.NoError(t, say(cs), "the premise: the first message is answered, and headers have gone")
				require.Equal(t, connect.CodeResourceExhausted, connect.CodeOf(say(cs)))
				for _, field := range append(fieldsOf, "Retry-After") {
					assert.NotEmpty(t, cs.ResponseTrailer()[field], "%s is a trailer", field)
					assert.Empty(t, cs.ResponseHeader()[field], "headers had gone")
				}
				assert.Contains(t, strings.Join(cs.ResponseTrailer()["Ratelimit-Policy"], ", "), `"messages";q=1;w=3600`)
				if name == "NewTogether" {
					assert.Contains(t, strings.Join(cs.ResponseTrailer()["Ratelimit-Policy"], ", "), `"service";q=99;w=3600`, "the fields of all limiters")
				}
			})
		})
	}
}

func TestFieldsOfSeveralLimitersAreOneList(t *testing.T) {
	legacy := func(name string, n int) *core.Limiter {
		return limiterOf(core.Policy{Name: name, Limits: []core.Limit{core.PerHour(n)}})
	}
	speak(t, serve(t, handlers{}, connectlimit.New(legacy("outer", 9), byKey), connectlimit.New(legacy("inner", 1), byKey)), func(t *testing.T, s server) {
		a, res := s.send(t, s.protocol)
		require.NoError(t, a.err)
		policies := strings.Join(res.Header()["Ratelimit-Policy"], ", ")
		assert.Contains(t, policies, `"outer";q=9;w=3600`)
		assert.Contains(t, policies, `"inner";q=1;w=3600`)
		assert.Equal(t, []string{"1"}, res.Header().Values("X-RateLimit-Limit"), "of the single-valued fields the most constraining one stays")
		a = s.call(t, s.protocol)
		require.Equal(t, connect.CodeResourceExhausted, connect.CodeOf(a.err))
		whereFields(t, s.protocol, a, "Retry-After", "X-Ratelimit-Remaining")
		assert.Contains(t, strings.Join(a.meta["Ratelimit"], ", "), `"outer"`, "a limiter in front that allowed the call has its fields with the denial")
	})
}

// Apps keep errors and answers in variables. Calls at once must not write to
// them.
func TestErrorsAndAnswersOfHandlersStayAsTheyAre(t *testing.T) {
	gone := connect.NewError(connect.CodeNotFound, errors.New("gone"))
	gone.Meta().Set("X-Own", "1")
	saw := connect.UnaryInterceptorFunc(func(next connect.UnaryFunc) connect.UnaryFunc {
		return func(ctx context.Context, req connect.AnyRequest) (connect.AnyResponse, error) {
			res, err := next(ctx, req)
			assert.Same(t, gone, err, "interceptors in front see the handler's own error")
			return res, err
		}
	})
	h := handlers{once: func(context.Context, *request) (*response, error) { return nil, gone }}
	speak(t, serve(t, h, saw, connectlimit.New(perHour("calls", 999), all)), func(t *testing.T, s server) {
		var calls sync.WaitGroup
		for range 8 {
			calls.Go(func() {
				a := s.call(t, "")
				assert.Len(t, a.meta["Ratelimit"], 1, "each answer has the fields of its own call alone")
				assert.Equal(t, "1", a.meta.Get("X-Own"), "and what the handler gave its error")
			})
		}
		calls.Wait()
	})
	assert.Equal(t, http.Header{"X-Own": {"1"}}, gone.Meta())
}

func TestFieldsOfACallWhoseHandlerPanics(t *testing.T) {
	h := handlers{once: func(context.Context, *request) (*response, error) { panic("handler") }}
	speak(t, serve(t, h, recovers{}, connectlimit.New(perHour("calls", 9), all)), func(t *testing.T, s server) {
		a := s.call(t, "")
		require.Equal(t, connect.CodeInternal, connect.CodeOf(a.err))
		whereFields(t, s.protocol, a, fieldsOf...)
	})
}

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
