package grpclimit_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"slices"
	"strings"
	"testing"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/peer"
	"google.golang.org/grpc/status"
	"google.golang.org/grpc/test/bufconn"
	"google.golang.org/protobuf/types/known/wrapperspb"

	"github.com/tokenbucket-go/ratelimit/core"
	"github.com/tokenbucket-go/ratelimit/core/adapter"
	"github.com/tokenbucket-go/ratelimit/core/adapter/adaptertest"
	"github.com/tokenbucket-go/ratelimit/core/middleware"
	"github.com/tokenbucket-go/ratelimit/core/store"
	"github.com/tokenbucket-go/ratelimit/grpclimit"
	"github.com/tokenbucket-go/ratelimit/internal/bothstores"
	"github.com/tokenbucket-go/ratelimit/internal/rpctest"
)

func TestConformance(t *testing.T) {
	bothstores.Run(t, func(t *testing.T, store func(store.Option) core.Store) {
		t.Run("Unary", func(t *testing.T) { adaptertest.Run(t, unaryKit, store) })
		t.Run("Stream", func(t *testing.T) { adaptertest.Run(t, streamKit, store) })
	})
}

type kit[M any] = adaptertest.Kit[*grpclimit.Call, grpclimit.KeyFunc, grpclimit.Option, grpclimit.Rule, M]

var (
	unaryKit  = kitOf(grpclimit.Unary, grpclimit.UnaryTogether, allowUnary, serveUnary, false)
	streamKit = kitOf(grpclimit.Stream, grpclimit.StreamTogether, allowStreams, serveStreams, true)
)

// kitOf describes interceptors of one kind.
func kitOf[M any](single func(*core.Limiter, grpclimit.KeyFunc, ...grpclimit.Option) M, together func([]grpclimit.Rule, ...grpclimit.Option) M,
	allow func(*core.Limiter, func(*grpclimit.Call) string, func(core.Result)) M, serve func(net.Listener, adaptertest.App[M]) error, streams bool) kit[M] {
	return kit[M]{
		New: single, NewTogether: together, Allow: allow,
		ClientIP: func(trust ...core.IPOption) func(*grpclimit.Call) (string, error) {
			find := grpclimit.ClientIP(trust...)
			return func(c *grpclimit.Call) (string, error) { return find(c.Context()) }
		},
		ByIP: grpclimit.ByPeer, ByHeader: grpclimit.ByMetadata,
		ByContextValue: grpclimit.ByContextValue, ByRoute: grpclimit.ByMethod,
		Global: grpclimit.Global, Join: grpclimit.Join, FirstOf: grpclimit.FirstOf,
		Header: func(c *grpclimit.Call, name string) string {
			return strings.Join(metadata.ValueFromIncomingContext(c.Context(), name), "")
		},
		Error:    func(s int) error { return status.Error(codes.Code(adaptertest.CodeOf(s)), "of the app") },
		WithCost: grpclimit.WithCost, WithUnits: grpclimit.WithUnits, WithFloor: grpclimit.WithFloor, WithPlan: grpclimit.WithPlan, WithLimits: grpclimit.WithLimits, WithSkip: grpclimit.WithSkip,
		WithSettle: func(settle func(*grpclimit.Call, int) core.Units) grpclimit.Option {
			if settle == nil {
				return grpclimit.WithSettle(nil)
			}
			return grpclimit.WithSettle(func(c *grpclimit.Call, code codes.Code) core.Units { return settle(c, adaptertest.StatusOf(int(code))) })
		},
		WithRefund: func(refund func(*grpclimit.Call, int) bool) grpclimit.Option {
			if refund == nil {
				return grpclimit.WithRefund(nil)
			}
			return grpclimit.WithRefund(func(c *grpclimit.Call, code codes.Code) bool { return refund(c, adaptertest.StatusOf(int(code))) })
		},
		OnDenied: func(denied func(core.Result) (int, string)) grpclimit.Option {
			return grpclimit.OnDenied(func(_ *grpclimit.Call, res core.Result) error { return own(denied(res)) })
		},
		OnError: func(failed func(error) (int, string)) grpclimit.Option {
			return grpclimit.OnError(func(_ *grpclimit.Call, err error) error { return own(failed(err)) })
		},
		Serve: serve, RPC: true, ProblemBody: true,
	}
}

// allowed asks limiter within a handler.
func allowed(ctx context.Context, c *grpclimit.Call, limiter *core.Limiter, key func(*grpclimit.Call) string, then func(core.Result)) error {
	res, err := grpclimit.Allow(ctx, limiter, key(c))
	if err == nil {
		then(res)
	}
	return err
}

// callOf returns the Call of a context, as functions of the app get it.
func callOf(ctx context.Context, method string) (c *grpclimit.Call) {
	skip := grpclimit.WithSkip(func(call *grpclimit.Call) bool { c = call; return true })
	_, _ = grpclimit.Unary(perHour("none", 1), grpclimit.Global("all"), skip)(ctx, nil, &grpc.UnaryServerInfo{FullMethod: method},
		func(context.Context, any) (any, error) { return "an answer", nil })
	return c
}

func allowUnary(limiter *core.Limiter, key func(*grpclimit.Call) string, then func(core.Result)) grpc.UnaryServerInterceptor {
	return func(ctx context.Context, in any, info *grpc.UnaryServerInfo, handler grpc.UnaryHandler) (any, error) {
		if err := allowed(ctx, callOf(ctx, info.FullMethod), limiter, key, then); err != nil {
			return nil, err
		}
		return handler(ctx, in)
	}
}

func allowStreams(limiter *core.Limiter, key func(*grpclimit.Call) string, then func(core.Result)) grpc.StreamServerInterceptor {
	return func(server any, ss grpc.ServerStream, info *grpc.StreamServerInfo, handler grpc.StreamHandler) error {
		if err := allowed(ss.Context(), callOf(ss.Context(), info.FullMethod), limiter, key, then); err != nil {
			return err
		}
		return handler(server, ss)
	}
}

func own(s int, body string) error {
	if s == 0 {
		return nil
	}
	return status.Error(codes.Code(adaptertest.CodeOf(s)), rpctest.OfApp+body)
}

// sentField has what a request of the suite was: metadata can't hold any bytes,
// and peers are the gateway.
const sentField = "sent-bin"

type sent struct {
	Network, Peer string
	Header        http.Header
}

// unpacked is the context of the call of a request: of its peer, and with its
// header fields as metadata.
func unpacked(ctx context.Context) context.Context {
	var s sent
	if err := json.Unmarshal([]byte(metadata.ValueFromIncomingContext(ctx, sentField)[0]), &s); err != nil {
		panic(err)
	}
	md := make(metadata.MD)
	for name, values := range s.Header {
		md.Append(name, values...)
	}
	return peer.NewContext(metadata.NewIncomingContext(ctx, md), &peer.Peer{Addr: addr{s.Network, s.Peer}, LocalAddr: addr{s.Network, ""}})
}

type addr struct{ network, name string }

func (a addr) Network() string { return a.network }
func (a addr) String() string  { return a.name }

// methodOf is the name of a route's method.
func methodOf(route int) string { return fmt.Sprint("Route", route) }

// routeOf returns the route of a full method.
func routeOf(method string) (route int) {
	_, _ = fmt.Sscanf(method[strings.LastIndex(method, "/"):], "/Route%d", &route)
	return route
}

// reply answers a call as the handler of its route says. send sends a message.
func reply[M any](ctx context.Context, route adaptertest.Route[M], send func(body string) error) error {
	res, ok := grpclimit.FromContext(ctx)
	if failed := rpctest.Reply(ctx, route, res, ok, grpclimit.AllFromContext(ctx), send); failed != 0 {
		return status.Error(codes.Code(adaptertest.CodeOf(failed)), "handler")
	}
	return nil
}

// answered returns the answer to a call that failed with err, or nil.
func answered(body string, err error, header, trailer metadata.MD) adaptertest.Answer {
	a := adaptertest.Answer{Status: adaptertest.StatusOf(int(status.Code(err))), Header: make(http.Header), Body: body}
	for _, md := range []metadata.MD{header, trailer} {
		for name, values := range md {
			if name != "content-type" && !strings.HasSuffix(name, "-bin") {
				a.Header[http.CanonicalHeaderKey(name)] = append(a.Header[http.CanonicalHeaderKey(name)], values...)
			}
		}
	}
	if err != nil {
		a.Body, a.Own = strings.CutPrefix(status.Convert(err).Message(), rpctest.OfApp)
		retry, limits := details(err)
		a.Limits, a.RetryAfter = limits, retry.GetRetryDelay().AsDuration()
		a.Header.Set("Details", fmt.Sprint(status.Convert(err).Details())) // which must show nothing internal
		if len(trailer.Get(middleware.PushbackField)) > 0 {
			a.Header.Set("Cache-Control", "no-store") // of a denial: calls are not cached, so gRPC has no such field
		}
	}
	return a
}

// gateway serves app in front of s until Accept fails. call makes a call.
func gateway[M any](l net.Listener, app adaptertest.App[M], s *grpc.Server, call func(ctx context.Context, conn *grpc.ClientConn, method string) adaptertest.Answer) error {
	defer s.Stop()
	inside := bufconn.Listen(1 << 20)
	go func() { _ = s.Serve(inside) }()
	conn, err := grpc.NewClient("passthrough:app", grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithContextDialer(func(ctx context.Context, _ string) (net.Conn, error) { return inside.DialContext(ctx) }))
	if err != nil {
		return err
	}
	defer conn.Close()
	return adaptertest.Gateway(l, app, func(r *http.Request, route int) adaptertest.Answer {
		packed, err := json.Marshal(sent{adapter.LocalAddr(r.Context()).Network(), r.RemoteAddr, r.Header})
		if err != nil {
			panic(err)
		}
		a := call(metadata.AppendToOutgoingContext(r.Context(), sentField, string(packed)), conn, "/"+service+"/"+methodOf(route))
		a.Gone = r.Context().Err() != nil
		return a
	})
}

var errPanic = status.Error(codes.Internal, "panic")

func serveUnary(l net.Listener, app adaptertest.App[grpc.UnaryServerInterceptor]) error {
	all := func(ctx context.Context, in any, info *grpc.UnaryServerInfo, handler grpc.UnaryHandler) (out any, err error) {
		chain := append(slices.Clip(app.Use), app.Routes[routeOf(info.FullMethod)].Use...)
		for _, limited := range slices.Backward(chain) {
			next := handler
			handler = func(ctx context.Context, in any) (any, error) { return limited(ctx, in, info, next) }
		}
		err = rpctest.Call(unpacked(ctx), app, errPanic, func(ctx context.Context) (err error) {
			out, err = handler(ctx, in)
			return err
		})
		return out, err
	}
	s := grpc.NewServer(grpc.UnaryInterceptor(all))
	desc := grpc.ServiceDesc{ServiceName: service, HandlerType: (*any)(nil)}
	for i, route := range app.Routes {
		desc.Methods = append(desc.Methods, grpc.MethodDesc{MethodName: methodOf(i), Handler: func(_ any, ctx context.Context, decode func(any) error, intercept grpc.UnaryServerInterceptor) (any, error) {
			in := new(text)
			if err := decode(in); err != nil {
				return nil, err
			}
			return intercept(ctx, in, &grpc.UnaryServerInfo{FullMethod: "/" + service + "/" + methodOf(i)}, func(ctx context.Context, _ any) (any, error) {
				var body strings.Builder
				err := reply(ctx, route, func(s string) error { body.WriteString(s); return nil })
				if err != nil {
					return nil, err
				}
				return wrapperspb.String(body.String()), nil
			})
		}})
	}
	s.RegisterService(&desc, nil)
	return gateway(l, app, s, func(ctx context.Context, conn *grpc.ClientConn, method string) adaptertest.Answer {
		var header, trailer metadata.MD
		out := new(text)
		err := conn.Invoke(ctx, method, hello(), out, grpc.Header(&header), grpc.Trailer(&trailer))
		return answered(out.GetValue(), err, header, trailer)
	})
}

// contextStream is a stream with another context.
type contextStream struct {
	grpc.ServerStream
	ctx context.Context
}

func (c contextStream) Context() context.Context { return c.ctx }

func serveStreams(l net.Listener, app adaptertest.App[grpc.StreamServerInterceptor]) error {
	all := func(server any, ss grpc.ServerStream, info *grpc.StreamServerInfo, handler grpc.StreamHandler) error {
		chain := append(slices.Clip(app.Use), app.Routes[routeOf(info.FullMethod)].Use...)
		for _, limited := range slices.Backward(chain) {
			next := handler
			handler = func(server any, ss grpc.ServerStream) error { return limited(server, ss, info, next) }
		}
		return rpctest.Call(unpacked(ss.Context()), app, errPanic, func(ctx context.Context) error {
			return handler(server, contextStream{ss, ctx})
		})
	}
	s := grpc.NewServer(grpc.StreamInterceptor(all))
	desc := grpc.ServiceDesc{ServiceName: service, HandlerType: (*any)(nil)}
	for i, route := range app.Routes {
		desc.Streams = append(desc.Streams, grpc.StreamDesc{StreamName: methodOf(i), ServerStreams: true, ClientStreams: true, Handler: func(_ any, ss grpc.ServerStream) error {
			return reply(ss.Context(), route, func(s string) error { return ss.SendMsg(wrapperspb.String(s)) })
		}})
	}
	s.RegisterService(&desc, nil)
	return gateway(l, app, s, func(ctx context.Context, conn *grpc.ClientConn, method string) adaptertest.Answer {
		cs, err := conn.NewStream(ctx, &grpc.StreamDesc{ServerStreams: true, ClientStreams: true}, method)
		if err != nil {
			return answered("", err, nil, nil)
		}
		_ = cs.CloseSend()
		var body strings.Builder
		for {
			out := new(text)
			if err = cs.RecvMsg(out); err != nil {
				break
			}
			body.WriteString(out.GetValue())
		}
		if errors.Is(err, io.EOF) {
			err = nil
		}
		header, _ := cs.Header()
		return answered(body.String(), err, header, cs.Trailer())
	})
}
