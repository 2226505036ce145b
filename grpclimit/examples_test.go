package grpclimit_test

import (
	"context"
	"fmt"
	"net"

	"google.golang.org/genproto/googleapis/rpc/errdetails"
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

// checks serves health checks with options, and calls use with a client.
func checks(use func(healthpb.HealthClient), options ...grpc.ServerOption) {
	s := grpc.NewServer(options...)
	healthpb.RegisterHealthServer(s, health.NewServer())
	l := core.Must(net.Listen("tcp", "127.0.0.1:0"))
	go func() { _ = s.Serve(l) }()
	defer s.Stop()
	conn := core.Must(grpc.NewClient(l.Addr().String(), grpc.WithTransportCredentials(insecure.NewCredentials())))
	defer func() { _ = conn.Close() }()
	use(healthpb.NewHealthClient(conn))
}

// Each API key has one call an hour. The details of a denial say what a client
// needs.
func Example() {
	limiter := core.Must(core.NewLimiter(core.NewMemoryStore(), core.Policy{
		Name: "calls", Limits: []core.Limit{core.PerHour(1)}, Headers: core.HeadersDraft8,
	}))
	key := grpclimit.ByMetadata("x-api-key")
	checks(func(client healthpb.HealthClient) {
		ctx := metadata.AppendToOutgoingContext(context.Background(), "x-api-key", "ann")
		var header metadata.MD
		_, err := client.Check(ctx, nil, grpc.Header(&header))
		fmt.Println(status.Code(err), header.Get("ratelimit-policy"))
		_, err = client.Check(ctx, nil)
		fmt.Println(status.Code(err))
		for _, detail := range status.Convert(err).Details() {
			switch d := detail.(type) {
			case *errdetails.RetryInfo:
				fmt.Println("minutes to wait:", d.GetRetryDelay().AsDuration().Round(60e9).Minutes())
			case *errdetails.QuotaFailure:
				fmt.Println("limit:", d.GetViolations()[0].GetQuotaId())
			}
		}
		_, err = client.Check(context.Background(), nil)
		fmt.Println(status.Code(err))
	},
		grpc.ChainUnaryInterceptor(grpclimit.Unary(limiter, key)),
		grpc.ChainStreamInterceptor(grpclimit.Stream(limiter, key)),
	)
	// Output:
	// OK ["calls";q=1;w=3600]
	// ResourceExhausted
	// minutes to wait: 60
	// limit: calls
	// InvalidArgument
}

// A key of the context and the call: who an interceptor in front found, and
// what is called.
func ExampleKeyFunc() {
	type user struct{}
	limiter := core.Must(core.NewLimiter(core.NewMemoryStore(), core.Policy{Name: "calls", Limits: []core.Limit{core.PerHour(1)}}))
	login := func(ctx context.Context, message any, _ *grpc.UnaryServerInfo, handler grpc.UnaryHandler) (any, error) {
		return handler(context.WithValue(ctx, user{}, "ann"), message)
	}
	byUser := func(c *grpclimit.Call) (string, error) {
		name, ok := c.Context().Value(user{}).(string)
		if !ok {
			return "", core.ErrNoKey
		}
		return core.JoinKey("user", name, c.FullMethod), nil
	}
	checks(func(client healthpb.HealthClient) {
		for range 2 {
			_, err := client.Check(context.Background(), nil)
			fmt.Println(status.Code(err))
		}
	}, grpc.ChainUnaryInterceptor(login, grpclimit.Unary(limiter, byUser)))
	// Output:
	// OK
	// ResourceExhausted
}

// A call costs what its message says.
func ExampleCall() {
	limiter := core.Must(core.NewLimiter(core.NewMemoryStore(), core.Policy{Name: "calls", Limits: []core.Limit{core.PerHour(10)}}))
	byName := grpclimit.WithCost(func(c *grpclimit.Call) (int64, error) {
		request, ok := c.Message.(*healthpb.HealthCheckRequest)
		if !ok {
			return 0, core.ErrUnknownCost
		}
		return 1 + int64(len(request.GetService())), nil
	})
	checks(func(client healthpb.HealthClient) {
		for _, service := range []string{"files", "files", ""} {
			_, err := client.Check(context.Background(), &healthpb.HealthCheckRequest{Service: service})
			fmt.Println(status.Code(err))
		}
	}, grpc.UnaryInterceptor(grpclimit.Unary(limiter, grpclimit.ByPeer(), byName)))
	// Output:
	// NotFound
	// ResourceExhausted
	// OK
}

// Calls that find nothing are free.
func ExampleOption() {
	limiter := core.Must(core.NewLimiter(core.NewMemoryStore(), core.Policy{Name: "calls", Limits: []core.Limit{core.PerHour(1)}}))
	refund := grpclimit.WithRefund(func(_ *grpclimit.Call, code codes.Code) bool { return code == codes.NotFound })
	checks(func(client healthpb.HealthClient) {
		for _, service := range []string{"nothing", "", ""} {
			_, err := client.Check(context.Background(), &healthpb.HealthCheckRequest{Service: service})
			fmt.Println(status.Code(err))
		}
	}, grpc.UnaryInterceptor(grpclimit.Unary(limiter, grpclimit.ByPeer(), refund)))
	// Output:
	// NotFound
	// OK
	// ResourceExhausted
}

// A call pays for its client and for the service, or for none of them.
func ExampleRule() {
	limiter := func(name string, perHour int) *core.Limiter {
		return core.Must(core.NewLimiter(core.NewMemoryStore(), core.Policy{Name: name, Limits: []core.Limit{core.PerHour(perHour)}}))
	}
	rules := []grpclimit.Rule{
		{Limiter: limiter("client", 5), Key: grpclimit.ByPeer()},
		{Limiter: limiter("service", 1), Key: grpclimit.ByService()},
	}
	checks(func(client healthpb.HealthClient) {
		for range 2 {
			_, err := client.Check(context.Background(), nil)
			fmt.Println(status.Code(err))
		}
	}, grpc.UnaryInterceptor(grpclimit.UnaryTogether(rules)))
	// Output:
	// OK
	// ResourceExhausted
}

// Health checks and reflection pass.
func ExampleWithSkip() {
	limiter := core.Must(core.NewLimiter(core.NewMemoryStore(), core.Policy{Name: "calls", Limits: []core.Limit{core.PerHour(1)}}))
	checks(func(client healthpb.HealthClient) {
		for range 3 {
			_, err := client.Check(context.Background(), nil)
			fmt.Println(status.Code(err))
		}
	}, grpc.UnaryInterceptor(grpclimit.Unary(limiter, grpclimit.ByPeer(), grpclimit.WithSkip(grpclimit.HealthAndReflection))))
	// Output:
	// OK
	// OK
	// OK
}

// Each message that the server receives pays. The handler of Watch receives
// one.
func ExamplePerMessage() {
	limiter := core.Must(core.NewLimiter(core.NewMemoryStore(), core.Policy{Name: "messages", Limits: []core.Limit{core.PerHour(1)}}))
	checks(func(client healthpb.HealthClient) {
		for range 2 {
			stream, err := client.Watch(context.Background(), nil)
			if err == nil {
				_, err = stream.Recv()
			}
			fmt.Println(status.Code(err))
		}
	}, grpc.StreamInterceptor(grpclimit.Stream(limiter, grpclimit.ByPeer(), grpclimit.PerMessage())))
	// Output:
	// OK
	// ResourceExhausted
}
