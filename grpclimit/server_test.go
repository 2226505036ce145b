package grpclimit_test

import (
	"context"
	"net"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/wrapperspb"

	"github.com/tokenbucket-go/ratelimit/core"
)

// Methods of the service that tests call.
const (
	service = "test.v1.Test"
	once    = "/" + service + "/Once" // unary
	talk    = "/" + service + "/Talk" // a stream of both sides
)

type text = wrapperspb.StringValue

// handlers are what the service does. By default a unary call succeeds, and a
// stream answers each message by the same one.
type handlers struct {
	once func(ctx context.Context, in *text) (*text, error)
	talk func(ss grpc.ServerStream) error
}

func echo(ss grpc.ServerStream) error {
	for {
		var m text
		if err := ss.RecvMsg(&m); err != nil {
			return ended(err)
		}
		if err := ss.SendMsg(&m); err != nil {
			return err
		}
	}
}

// serve serves h on loopback until the test ends, and returns a connection of a
// client.
func serve(t *testing.T, h handlers, unary []grpc.UnaryServerInterceptor, stream []grpc.StreamServerInterceptor, dial ...grpc.DialOption) *grpc.ClientConn {
	t.Helper()
	s := grpc.NewServer(grpc.ChainUnaryInterceptor(unary...), grpc.ChainStreamInterceptor(stream...))
	if h.once == nil {
		h.once = func(_ context.Context, in *text) (*text, error) { return in, nil }
	}
	if h.talk == nil {
		h.talk = echo
	}
	s.RegisterService(&grpc.ServiceDesc{
		ServiceName: service, HandlerType: (*any)(nil),
		Methods: []grpc.MethodDesc{{MethodName: "Once", Handler: func(_ any, ctx context.Context, decode func(any) error, i grpc.UnaryServerInterceptor) (any, error) {
			in := new(text)
			if err := decode(in); err != nil {
				return nil, err
			}
			handler := func(ctx context.Context, in any) (any, error) { return h.once(ctx, in.(*text)) }
			if i == nil {
				return handler(ctx, in)
			}
			return i(ctx, in, &grpc.UnaryServerInfo{FullMethod: once}, handler)
		}}},
		Streams: []grpc.StreamDesc{{StreamName: "Talk", ServerStreams: true, ClientStreams: true, Handler: func(_ any, ss grpc.ServerStream) error { return h.talk(ss) }}},
	}, nil)
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	go func() { _ = s.Serve(l) }()
	t.Cleanup(s.Stop)
	conn, err := grpc.NewClient(l.Addr().String(), append(dial, grpc.WithTransportCredentials(insecure.NewCredentials()))...)
	require.NoError(t, err)
	t.Cleanup(func() { _ = conn.Close() })
	return conn
}

// unary serves the service behind interceptors of unary calls.
func unary(t *testing.T, h handlers, interceptors ...grpc.UnaryServerInterceptor) *grpc.ClientConn {
	t.Helper()
	return serve(t, h, interceptors, nil)
}

// streams serves the service behind interceptors of streams.
func streams(t *testing.T, h handlers, interceptors ...grpc.StreamServerInterceptor) *grpc.ClientConn {
	t.Helper()
	return serve(t, h, nil, interceptors)
}

// within is the context of a test's calls.
func within(t *testing.T) context.Context {
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	t.Cleanup(cancel)
	return ctx
}

// as is a context with the API key of a client.
func as(ctx context.Context, key string) context.Context {
	return metadata.AppendToOutgoingContext(ctx, "x-api-key", key)
}

// answer is what a client gets.
type answer struct {
	err             error
	header, trailer metadata.MD
}

func call(ctx context.Context, conn *grpc.ClientConn) (a answer) {
	a.err = conn.Invoke(ctx, once, hello(), new(text), grpc.Header(&a.header), grpc.Trailer(&a.trailer))
	return a
}

// open opens a stream.
func open(ctx context.Context, t *testing.T, conn *grpc.ClientConn) grpc.ClientStream {
	t.Helper()
	cs, err := conn.NewStream(ctx, &grpc.StreamDesc{ServerStreams: true, ClientStreams: true}, talk)
	require.NoError(t, err)
	return cs
}

// say sends a message and receives the answer.
func say(cs grpc.ClientStream) error {
	_ = cs.SendMsg(hello()) // RecvMsg has the error
	return cs.RecvMsg(new(text))
}

// details returns those of a refusal: how long to wait, and the limits that
// lack tokens.
func details(err error) (retry *errdetails.RetryInfo, limits []string) {
	for _, d := range status.Convert(err).Details() {
		switch d := d.(type) {
		case *errdetails.RetryInfo:
			retry = d
		case *errdetails.QuotaFailure:
			for _, v := range d.GetViolations() {
				limits = append(limits, v.GetSubject())
			}
		}
	}
	return retry, limits
}

func limiterOf(policy core.Policy) *core.Limiter {
	return core.Must(core.NewLimiter(core.NewMemoryStore(), policy))
}

func perHour(name string, n int) *core.Limiter {
	return limiterOf(core.Policy{Name: name, Headers: core.HeadersDraft8, Limits: []core.Limit{core.PerHour(n)}})
}

func hello() *text { return wrapperspb.String("hello") }
