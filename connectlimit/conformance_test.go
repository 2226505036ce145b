package connectlimit_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"connectrpc.com/connect"
	"google.golang.org/protobuf/types/known/wrapperspb"

	"github.com/tokenbucket-go/ratelimit/connectlimit"
	"github.com/tokenbucket-go/ratelimit/core"
	"github.com/tokenbucket-go/ratelimit/core/adapter"
	"github.com/tokenbucket-go/ratelimit/core/adapter/adaptertest"
	"github.com/tokenbucket-go/ratelimit/core/store"
	"github.com/tokenbucket-go/ratelimit/internal/bothstores"
	"github.com/tokenbucket-go/ratelimit/internal/rpctest"
)

func TestConformance(t *testing.T) {
	memory := func(clock store.Option) core.Store { return core.NewMemoryStore(clock) }
	for protocol := range protocols {
		t.Run(protocol+" stream", func(t *testing.T) { adaptertest.Run(t, kitOf(protocol, true), memory) })
		if protocol != connect.ProtocolConnect {
			t.Run(protocol+" unary", func(t *testing.T) { adaptertest.Run(t, kitOf(protocol, false), memory) })
		}
	}
	bothstores.Run(t, func(t *testing.T, store func(store.Option) core.Store) {
		adaptertest.Run(t, kitOf(connect.ProtocolConnect, false), store)
	})
}

// app is an app of the suite.
type app = adaptertest.App[connect.Interceptor]

// kitOf describes the interceptor for clients of a protocol, whose calls are
// unary, or streams of the server.
func kitOf(protocol string, streams bool) adaptertest.Kit[*connectlimit.Call, connectlimit.KeyFunc, connectlimit.Option, connectlimit.Rule, connect.Interceptor] {
	return adaptertest.Kit[*connectlimit.Call, connectlimit.KeyFunc, connectlimit.Option, connectlimit.Rule, connect.Interceptor]{
		New: connectlimit.New, NewTogether: connectlimit.NewTogether, Allow: allowing,
		ClientIP: func(trust ...core.IPOption) func(*connectlimit.Call) (string, error) {
			find := connectlimit.ClientIP(trust...)
			return func(c *connectlimit.Call) (string, error) { return find(c.Context()) }
		},
		ByIP: connectlimit.ByPeer, ByHeader: connectlimit.ByHeader,
		ByContextValue: connectlimit.ByContextValue, ByRoute: connectlimit.ByMethod,
		Global: connectlimit.Global, Join: connectlimit.Join, FirstOf: connectlimit.FirstOf,
		Header: func(c *connectlimit.Call, name string) string { return c.Header().Get(name) },
		Error: func(s int) error {
			return connect.NewError(connect.Code(adaptertest.CodeOf(s)), errors.New("of the app"))
		},
		WithCost: connectlimit.WithCost, WithUnits: connectlimit.WithUnits, WithFloor: connectlimit.WithFloor, WithPlan: connectlimit.WithPlan, WithLimits: connectlimit.WithLimits, WithSkip: connectlimit.WithSkip,
		WithSettle: func(settle func(*connectlimit.Call, int) core.Units) connectlimit.Option {
			return connectlimit.WithSettle(func(c *connectlimit.Call, code connect.Code) core.Units {
				return settle(c, adaptertest.StatusOf(int(code)))
			})
		},
		WithRefund: func(refund func(*connectlimit.Call, int) bool) connectlimit.Option {
			return connectlimit.WithRefund(func(c *connectlimit.Call, code connect.Code) bool { return refund(c, adaptertest.StatusOf(int(code))) })
		},
		OnDenied: func(denied func(core.Result) (int, string)) connectlimit.Option {
			return connectlimit.OnDenied(func(_ *connectlimit.Call, res core.Result) error { return own(denied(res)) })
		},
		OnError: func(failed func(error) (int, string)) connectlimit.Option {
			return connectlimit.OnError(func(_ *connectlimit.Call, err error) error { return own(failed(err)) })
		},
		Serve: func(l net.Listener, a app) error { return serveApp(l, a, protocol, streams) },
		RPC:   true, ProblemBody: true,
	}
}

func own(status int, body string) error {
	if status == 0 {
		return nil
	}
	return connect.NewError(connect.Code(adaptertest.CodeOf(status)), errors.New(rpctest.OfApp+body))
}

// around is an interceptor of handlers that does the same for unary calls and
// streams.
type around func(ctx context.Context, header http.Header, next func(context.Context) error) error

func (f around) WrapUnary(next connect.UnaryFunc) connect.UnaryFunc {
	return func(ctx context.Context, req connect.AnyRequest) (res connect.AnyResponse, err error) {
		err = f(ctx, req.Header(), func(ctx context.Context) (err error) { res, err = next(ctx, req); return err })
		return res, err
	}
}

func (around) WrapStreamingClient(next connect.StreamingClientFunc) connect.StreamingClientFunc {
	return next
}

func (f around) WrapStreamingHandler(next connect.StreamingHandlerFunc) connect.StreamingHandlerFunc {
	return func(ctx context.Context, conn connect.StreamingHandlerConn) error {
		return f(ctx, conn.RequestHeader(), func(ctx context.Context) error { return next(ctx, conn) })
	}
}

// callOf returns the Call of a request with a context and a header, as
// functions of the app get it.
func callOf(ctx context.Context, header http.Header) (c *connectlimit.Call) {
	skip := connectlimit.WithSkip(func(call *connectlimit.Call) bool { c = call; return true })
	req := connect.NewRequest(hello())
	maps.Copy(req.Header(), header)
	_, _ = connectlimit.New(perHour("none", 1), connectlimit.Global("all"), skip).WrapUnary(func(context.Context, connect.AnyRequest) (connect.AnyResponse, error) {
		return nil, errors.New("not called")
	})(ctx, req)
	return c
}

// asksKey is the key of what the handler asks in front of everything else:
// contexts of streams know the call only there.
type asksKey struct{}

func allowing(limiter *core.Limiter, key func(*connectlimit.Call) string, then func(core.Result)) connect.Interceptor {
	return around(func(ctx context.Context, header http.Header, next func(context.Context) error) error {
		before, _ := ctx.Value(asksKey{}).(func(context.Context) error)
		return next(context.WithValue(ctx, asksKey{}, func(ctx context.Context) error {
			if before != nil {
				if err := before(ctx); err != nil {
					return err
				}
			}
			res, err := connectlimit.Allow(ctx, limiter, key(callOf(ctx, header)))
			if err == nil {
				then(res)
			}
			return err
		}))
	})
}

// asked asks what handlers ask in front of everything else.
func asked(ctx context.Context) error {
	if ask, ok := ctx.Value(asksKey{}).(func(context.Context) error); ok {
		return ask(ctx)
	}
	return nil
}

// peerField has the network and the address of the client of the suite, whose
// calls the gateway makes.
const peerField = "Test-Peer"

func serveApp(l net.Listener, a app, protocol string, streams bool) error {
	mux := http.NewServeMux()
	for i, route := range a.Routes {
		procedure := fmt.Sprintf("/%s/Route%d", service, i)
		chain := []connect.Interceptor{around(func(ctx context.Context, _ http.Header, next func(context.Context) error) error {
			return rpctest.Call(ctx, a, connect.NewError(connect.CodeInternal, errors.New("panic")), next)
		})}
		chain = append(append(chain, a.Use...), route.Use...)
		chain = append(chain, around(func(ctx context.Context, _ http.Header, next func(context.Context) error) error {
			if ctx.Err() != nil { // Connect does not call the handler then, as the suite wants it
				ctx = context.WithoutCancel(ctx)
			}
			return next(ctx)
		}))
		mux.Handle(procedure, handlerOf(procedure, route, streams, connect.WithInterceptors(chain...)))
	}
	s := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		network, name, _ := strings.Cut(r.Header.Get(peerField), " ")
		r.RemoteAddr = name
		var local net.Addr = new(net.TCPAddr)
		if network == "unix" {
			local = &net.UnixAddr{Net: network}
		}
		mux.ServeHTTP(w, r.WithContext(context.WithValue(r.Context(), http.LocalAddrContextKey, local)))
	}))
	s.Config.Protocols = new(http.Protocols)
	s.Config.Protocols.SetUnencryptedHTTP2(true)
	s.Start()
	defer s.Close()
	transport := &http.Transport{Protocols: s.Config.Protocols}
	defer transport.CloseIdleConnections()
	return adaptertest.Gateway(l, a, func(r *http.Request, route int) adaptertest.Answer {
		client := connect.NewClient[text, text](&http.Client{Transport: transport}, s.URL+fmt.Sprintf("/%s/Route%d", service, route), protocols[protocol]...)
		in := connect.NewRequest(hello())
		for name, values := range r.Header {
			if name != "Accept-Encoding" && name != "User-Agent" {
				in.Header()[name] = values
			}
		}
		in.Header().Set(peerField, adapter.LocalAddr(r.Context()).Network()+" "+r.RemoteAddr)
		got := callOnce
		if streams {
			got = callStream
		}
		answer := got(r.Context(), client, in)
		answer.Gone = r.Context().Err() != nil
		return answer
	})
}

// handlerOf returns the handler of a route.
func handlerOf(procedure string, route adaptertest.Route[connect.Interceptor], streams bool, options ...connect.HandlerOption) http.Handler {
	if streams {
		return connect.NewServerStreamHandler(procedure, func(ctx context.Context, _ *request, s *connect.ServerStream[text]) error {
			if err := asked(ctx); err != nil {
				return err
			}
			return reply(ctx, route, func(body string) error { return s.Send(wrapperspb.String(body)) })
		}, options...)
	}
	return connect.NewUnaryHandler(procedure, func(ctx context.Context, _ *request) (*response, error) {
		if err := asked(ctx); err != nil {
			return nil, err
		}
		var body strings.Builder
		res := connect.NewResponse(hello())
		err := reply(ctx, route, func(s string) error { body.WriteString(s); return nil })
		if err != nil {
			return nil, err
		}
		res.Msg.Value = body.String()
		return res, nil
	}, options...)
}

// reply answers a call as the handler of its route says. send sends a message.
func reply(ctx context.Context, route adaptertest.Route[connect.Interceptor], send func(body string) error) error {
	found, ok := connectlimit.FromContext(ctx)
	if failed := rpctest.Reply(ctx, route, found, ok, connectlimit.AllFromContext(ctx), send); failed != 0 {
		return connect.NewError(connect.Code(adaptertest.CodeOf(failed)), errors.New("handler"))
	}
	return nil
}

func callOnce(ctx context.Context, client *connect.Client[text, text], in *request) adaptertest.Answer {
	out, err := client.CallUnary(ctx, in)
	if err != nil {
		return answered("", err)
	}
	return answered(out.Msg.GetValue(), nil, out.Header(), out.Trailer())
}

func callStream(ctx context.Context, client *connect.Client[text, text], in *request) adaptertest.Answer {
	out, err := client.CallServerStream(ctx, in)
	if err != nil {
		return answered("", err)
	}
	defer out.Close()
	var body strings.Builder
	for out.Receive() {
		body.WriteString(out.Msg().GetValue())
	}
	if err := out.Err(); err != nil {
		return answered("", err)
	}
	return answered(body.String(), nil, out.ResponseHeader(), out.ResponseTrailer())
}

// answered returns the answer to a call that failed with err, or nil.
func answered(body string, err error, fields ...http.Header) adaptertest.Answer {
	a := adaptertest.Answer{Status: http.StatusOK, Header: make(http.Header), Body: body}
	if failed, ok := errors.AsType[*connect.Error](err); ok {
		fields = []http.Header{failed.Meta()}
		a.Status = adaptertest.StatusOf(int(failed.Code()))
		a.Body, a.Own = strings.CutPrefix(failed.Message(), rpctest.OfApp)
		retry, limits := detailsOf(err)
		a.Limits, a.RetryAfter = limits, retry.GetRetryDelay().AsDuration()
	} else if err != nil {
		a.Status = http.StatusInternalServerError
	}
	for _, h := range fields {
		for name, values := range h {
			if name != "Content-Type" && name != "Content-Length" && name != "Content-Encoding" && name != "Trailer" {
				a.Header[name] = append(a.Header[name], values...)
			}
		}
	}
	return a
}
