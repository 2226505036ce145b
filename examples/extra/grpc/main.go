// A gRPC server to copy: an address may send 300 calls a minute, and a user 60.
// Health checks are free. Replace users, the limits and the greeter; the rest
// can stay. In this directory:
//
//	REDIS_URL=redis://localhost:6379 go run .
//	grpcurl -plaintext -H 'x-api-key: ann-secret' -d '{"name": "Ann"}' -proto helloworld.proto localhost:8080 helloworld.Greeter/SayHello
//
// helloworld.proto is that of google.golang.org/grpc/examples.
package main

import (
	"cmp"
	"context"
	"crypto/sha256"
	"crypto/subtle"
	"errors"
	"log"
	"net"
	"net/http"
	"os"
	"os/signal"
	"strings"
	"syscall"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	pb "google.golang.org/grpc/examples/helloworld/helloworld"
	"google.golang.org/grpc/health"
	healthpb "google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/keepalive"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
	"google.golang.org/grpc/tap"

	"github.com/tokenbucket-go/ratelimit/core"
	"github.com/tokenbucket-go/ratelimit/core/redisstore"
	"github.com/tokenbucket-go/ratelimit/grpclimit"
	"github.com/tokenbucket-go/ratelimit/promlimit"
)

// timeouts are how long a client may take.
type timeouts struct{ connect, call time.Duration }

func app(store core.Store, observe core.LimiterOption, within timeouts, proxies ...string) *grpc.Server {
	perAddress := core.Must(core.NewLimiter(store, core.Policy{
		Name:   "address",
		Limits: []core.Limit{core.PerMinute(300).WithBurst(100)},
	}, observe))
	perUser := core.Must(core.NewLimiter(store, core.Policy{
		Name:   "user",
		Limits: []core.Limit{core.PerMinute(60).WithBurst(30), core.PerDay(10_000)},
	}, observe))

	byPeer, skip := grpclimit.ByPeer(core.TrustProxies(proxies...)), grpclimit.WithSkip(grpclimit.HealthAndReflection)
	// By the verified user. By metadata each made-up value would have a full
	// bucket.
	byUser := grpclimit.ByContextValue(userKey{})
	rpc := grpc.NewServer(
		// The address in front of the keys, or guessing at them would be free.
		grpc.ChainUnaryInterceptor(grpclimit.Unary(perAddress, byPeer, skip), authenticate, grpclimit.Unary(perUser, byUser, skip)),
		grpc.ChainStreamInterceptor(grpclimit.Stream(perAddress, byPeer, skip)), // with streams of your own also user and key
		grpc.UnknownServiceHandler(func(any, grpc.ServerStream) error { return status.Error(codes.Unimplemented, "no such method") }),
		// A bound for whatever a client could make large, or never finish.
		// Messages are read before interceptors run.
		grpc.MaxRecvMsgSize(64<<10), grpc.MaxHeaderListSize(16<<10), grpc.MaxConcurrentStreams(100),
		grpc.ConnectionTimeout(within.connect), grpc.InTapHandle(within.begin),
		grpc.KeepaliveParams(keepalive.ServerParameters{MaxConnectionIdle: 5 * time.Minute, Time: time.Minute, Timeout: 20 * time.Second}),
		grpc.WaitForHandlers(true), // so that their slots come back before the program ends
	)
	pb.RegisterGreeterServer(rpc, greeter{})
	healthpb.RegisterHealthServer(rpc, health.NewServer())
	return rpc
}

// begin gives each call a deadline, from its first byte on. Streams that last
// need another; those that watch the health are opened again by their clients.
func (w timeouts) begin(ctx context.Context, _ *tap.Info) (context.Context, error) {
	call, cancel := context.WithTimeout(ctx, w.call)
	context.AfterFunc(ctx, cancel)
	return call, nil
}

type greeter struct{ pb.UnimplementedGreeterServer }

func (greeter) SayHello(_ context.Context, in *pb.HelloRequest) (*pb.HelloReply, error) {
	return &pb.HelloReply{Message: "Hello " + in.GetName()}, nil
}

type userKey struct{} // of the call's context

func authenticate(ctx context.Context, in any, call *grpc.UnaryServerInfo, next grpc.UnaryHandler) (any, error) {
	if call.FullMethod == healthpb.Health_Check_FullMethodName {
		return next(ctx, in)
	}
	user := userOf(strings.Join(metadata.ValueFromIncomingContext(ctx, "x-api-key"), ","))
	if user == "" {
		return nil, status.Error(codes.Unauthenticated, "unknown API key")
	}
	return next(context.WithValue(ctx, userKey{}, user), in)
}

// users has the user of each API key, by its hash. Yours are random, and in
// your database.
var users = map[[sha256.Size]byte]string{
	sha256.Sum256([]byte("ann-secret")): "ann", sha256.Sum256([]byte("bob-secret")): "bob",
}

// userOf returns whose key it is, or "". It takes as long for all.
func userOf(key string) (user string) {
	got := sha256.Sum256([]byte(key))
	for want, name := range users {
		if subtle.ConstantTimeCompare(got[:], want[:]) == 1 {
			user = name
		}
	}
	return user
}

// What follows is the same in all examples but for serve, because gRPC has its
// own server.

// main reads ADDR, where clients connect; ADMIN_ADDR, which clients must not
// reach; REDIS_URL; and TRUSTED_PROXIES, the addresses or ranges of proxies in
// front.
func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	var store core.Store = core.NewMemoryStore()
	if url := os.Getenv("REDIS_URL"); url != "" {
		redis, err := redisstore.Open(url, redisstore.WithPrefix("grpc-example:"))
		if err == nil {
			err = redis.Ping(ctx)
		}
		if err != nil {
			log.Fatalf("REDIS_URL: %v", err) // else each replica would limit alone, and nobody would notice
		}
		defer redis.Close()
		store = redis
	}
	metrics := promlimit.New()
	prometheus.MustRegister(metrics)
	proxies := strings.Fields(strings.ReplaceAll(os.Getenv("TRUSTED_PROXIES"), ",", " "))
	public := app(store, core.WithObserver(metrics.Observe), timeouts{5 * time.Second, 15 * time.Second}, proxies...)
	admin := &http.Server{
		Handler: promhttp.Handler(), ReadHeaderTimeout: 5 * time.Second, WriteTimeout: 30 * time.Second,
	}
	if err := serve(ctx, public, admin); err != nil {
		log.Fatal(err)
	}
}

// serve serves until ctx ends, as it does by SIGTERM. Then calls have 20
// seconds to end, and are cancelled.
func serve(ctx context.Context, public *grpc.Server, admin *http.Server) error {
	clients, err := net.Listen("tcp", cmp.Or(os.Getenv("ADDR"), "localhost:8080"))
	if err != nil {
		return err
	}
	operators, err := net.Listen("tcp", cmp.Or(os.Getenv("ADMIN_ADDR"), "localhost:8081"))
	if err != nil {
		return err
	}
	log.Printf("listening on %s", clients.Addr())
	log.Printf("listening on http://%s", operators.Addr())
	failed := make(chan error, 2)
	go func() { failed <- public.Serve(clients) }()
	go func() { failed <- admin.Serve(operators) }()
	select {
	case err := <-failed:
		return errors.Join(err, errors.New("a server has ended"))
	case <-ctx.Done():
	}
	time.AfterFunc(20*time.Second, public.Stop)
	public.GracefulStop()
	return admin.Close()
}
