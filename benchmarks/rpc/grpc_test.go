// Package rpc_test measures what interceptors add to a call, without the transport.
package rpc_test

import (
	"context"
	"net"
	"testing"

	peer "github.com/grpc-ecosystem/go-grpc-middleware/v2/interceptors/ratelimit"
	"golang.org/x/time/rate"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/health"
	healthpb "google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	"github.com/tokenbucket-go/ratelimit/core"
	"github.com/tokenbucket-go/ratelimit/grpclimit"
)

// perSecond is more than the machine can ask for: every call passes.
const perSecond = 1_000_000_000

// xtime is a limiter of go-grpc-middleware: one bucket for all calls.
type xtime struct{ *rate.Limiter }

func (l xtime) Limit(context.Context) error {
	if l.Allow() {
		return nil
	}
	return status.Error(codes.ResourceExhausted, "rate limit exceeded")
}

func limiter(headers core.HeaderStyle) *core.Limiter {
	return core.Must(core.NewLimiter(core.NewMemoryStore(), core.Policy{Name: "calls", Headers: headers, Limits: []core.Limit{core.PerSecond(perSecond)}}))
}

// transport takes metadata as the server's stream does.
type transport struct{}

func (transport) Method() string               { return "/files.v1.Files/Read" }
func (transport) SetHeader(metadata.MD) error  { return nil }
func (transport) SendHeader(metadata.MD) error { return nil }
func (transport) SetTrailer(metadata.MD) error { return nil }

func BenchmarkGRPC(b *testing.B) {
	ctx := metadata.NewIncomingContext(context.Background(), metadata.Pairs("x-api-key", "k"))
	ctx = grpc.NewContextWithServerTransportStream(ctx, transport{})
	info := &grpc.UnaryServerInfo{FullMethod: transport{}.Method()}
	handler := func(context.Context, any) (any, error) { return "an answer", nil }
	for _, contender := range []struct {
		name      string
		intercept grpc.UnaryServerInterceptor
	}{
		{"go-grpc-middleware with x-time, one bucket", peer.UnaryServerInterceptor(xtime{rate.NewLimiter(perSecond, perSecond)})},
		{"grpclimit, one bucket, no fields", grpclimit.Unary(limiter(core.HeadersNone), grpclimit.Global("all"))},
		{"grpclimit, a bucket for each key, no fields", grpclimit.Unary(limiter(core.HeadersNone), grpclimit.ByMetadata("x-api-key"))},
		{"grpclimit, a bucket for each key, Draft8 fields", grpclimit.Unary(limiter(core.HeadersDraft8), grpclimit.ByMetadata("x-api-key"))},
	} {
		b.Run(contender.name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				if _, err := contender.intercept(ctx, nil, info, handler); err != nil {
					b.Fatal("the premise: every call passes: ", err)
				}
			}
		})
	}
}

// BenchmarkGRPCCall is a whole call over loopback, one after the other.
func BenchmarkGRPCCall(b *testing.B) {
	for name, options := range map[string][]grpc.ServerOption{
		"without a limiter": nil,
		"grpclimit":         {grpc.UnaryInterceptor(grpclimit.Unary(limiter(core.HeadersDraft8), grpclimit.ByMetadata("x-api-key")))},
	} {
		b.Run(name, func(b *testing.B) {
			server := grpc.NewServer(options...)
			healthpb.RegisterHealthServer(server, health.NewServer())
			l, err := net.Listen("tcp", "127.0.0.1:0")
			if err != nil {
				b.Fatal(err)
			}
			go func() { _ = server.Serve(l) }()
			defer server.Stop()
			conn, err := grpc.NewClient(l.Addr().String(), grpc.WithTransportCredentials(insecure.NewCredentials()))
			if err != nil {
				b.Fatal(err)
			}
			defer conn.Close()
			ctx := metadata.AppendToOutgoingContext(context.Background(), "x-api-key", "k")
			client := healthpb.NewHealthClient(conn)
			b.ReportAllocs()
			for b.Loop() {
				if _, err := client.Check(ctx, new(healthpb.HealthCheckRequest)); err != nil {
					b.Fatal("the premise: every call passes: ", err)
				}
			}
		})
	}
}
