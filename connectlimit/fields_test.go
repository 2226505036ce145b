package connectlimit_test

import (
	"context"
	"errors"
	"net/http"
	"sync"
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

// recovers turns panics of handlers into errors, as an interceptor of an app
// does.
var recovers = connect.UnaryInterceptorFunc(func(next connect.UnaryFunc) connect.UnaryFunc {
	return func(ctx context.Context, req connect.AnyRequest) (_ connect.AnyResponse, err error) {
		defer func() {
			if recover() != nil {
				err = connect.NewError(connect.CodeUnavailable, errors.New("panic"))
			}
		}()
		return next(ctx, req)
	}
})

func TestFieldsOfACallThatFails(t *testing.T) {
	for how, once := range map[string]func(context.Context, *request) (*response, error){
		"its handler fails": func(context.Context, *request) (*response, error) {
			return nil, connect.NewError(connect.CodeUnavailable, errors.New("busy"))
		},
		"its handler panics": func(context.Context, *request) (*response, error) { panic("handler") },
	} {
		speak(t, serve(t, handlers{once: once}, recovers, connectlimit.New(perHour("calls", 1), byKey)), func(t *testing.T, s server) {
			a := s.call(t, s.protocol)
			require.Equal(t, connect.CodeUnavailable, connect.CodeOf(a.err), how)
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
}

func TestRetryAfterIsWholeSecondsAndRetryInfoIsExact(t *testing.T) {
	const wait = 1500 * time.Millisecond
	c := limittest.ClockAt(time.Unix(1e9, 0))
	limiter := core.Must(core.NewLimiter(core.NewMemoryStore(core.WithClock(c.Now)), core.Policy{
		Name: "calls", Headers: core.HeadersNone, Limits: []core.Limit{{Capacity: 1, RefillRate: 1, RefillInterval: wait}},
	}))
	speak(t, serve(t, handlers{}, connectlimit.New(limiter, byKey)), func(t *testing.T, s server) {
		require.NoError(t, s.call(t, s.protocol).err)
		a := s.call(t, s.protocol)
		assert.Equal(t, []string{"2"}, a.meta["Retry-After"], "whole seconds, rounded up")
		retry, _ := detailsOf(a.err)
		assert.Equal(t, wait, retry.GetRetryDelay().AsDuration())
		cs := s.open(t, s.protocol)
		require.Error(t, say(cs))
		assert.Contains(t, []string{cs.ResponseHeader().Get("Retry-After"), cs.ResponseTrailer().Get("Retry-After")}, "2", "streams too")
	})
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
