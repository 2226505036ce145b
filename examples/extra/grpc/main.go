// A gRPC server and an HTTP server with one policy: a client may send five calls a minute, and an address thirty, whichever way they
// come, and shares them with all processes if REDIS_URL is set. Health checks and reflection are free. In this directory:
//
//	go run .                                        # gRPC on port 9090, HTTP on port 8080
//	REDIS_URL=redis://localhost:6379 go run .       # buckets shared by all processes
//
//	grpcurl -plaintext -H 'x-api-key: k-1' -d '{"name": "Ann"}' localhost:9090 helloworld.Greeter/SayHello
//	curl -i -H 'X-Api-Key: k-1' 'localhost:8080/hello?name=Ann'   # the same five
package main

import (
	"context"
	"fmt"
	"log"
	"net"
	"net/http"
	"os"

	"google.golang.org/grpc"
	pb "google.golang.org/grpc/examples/helloworld/helloworld"
	"google.golang.org/grpc/health"
	healthpb "google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/reflection"

	"github.com/tokenbucket-go/ratelimit/core"
	"github.com/tokenbucket-go/ratelimit/core/redisstore"
	"github.com/tokenbucket-go/ratelimit/grpclimit"
	"github.com/tokenbucket-go/ratelimit/httplimit"
)

func main() {
	var store core.Store = core.NewMemoryStore()
	if url := os.Getenv("REDIS_URL"); url != "" {
		store = core.Must(redisstore.Open(url, redisstore.WithPrefix("grpc-example:")))
	}
	rpc, web, err := newServers(store)
	if err != nil {
		log.Fatal(err)
	}
	l, err := net.Listen("tcp", "localhost:9090")
	if err != nil {
		log.Fatal(err)
	}
	log.Print("gRPC on localhost:9090, HTTP on http://localhost:8080/hello?name=Ann")
	go func() { log.Fatal(rpc.Serve(l)) }()
	log.Fatal(http.ListenAndServe("localhost:8080", web))
}

// newServers returns both servers. Their keys are equal, so a client has one bucket in both.
func newServers(store core.Store) (*grpc.Server, http.Handler, error) {
	limiter, err := core.NewLimiter(store, core.Policy{Name: "hello", Limits: []core.Limit{core.PerMinute(5)}})
	if err != nil {
		return nil, nil, err
	}

	// A client can make up keys, and each is a full bucket: so its address has one in front.
	addresses, err := core.NewLimiter(store, core.Policy{Name: "address", Limits: []core.Limit{core.PerMinute(30)}})
	if err != nil {
		return nil, nil, err
	}

	byKey, skip := grpclimit.ByMetadata("x-api-key"), grpclimit.WithSkip(grpclimit.HealthAndReflection)
	rpc := grpc.NewServer(
		grpc.ChainUnaryInterceptor(grpclimit.Unary(addresses, grpclimit.ByPeer(), skip), grpclimit.Unary(limiter, byKey, skip)),
		grpc.ChainStreamInterceptor(grpclimit.Stream(addresses, grpclimit.ByPeer(), skip), grpclimit.Stream(limiter, byKey, skip)),
	)
	pb.RegisterGreeterServer(rpc, greeter{})
	healthpb.RegisterHealthServer(rpc, health.NewServer())
	reflection.Register(rpc)

	web := http.NewServeMux()
	byAddress, limited := httplimit.New(addresses, httplimit.ByIP()), httplimit.New(limiter, httplimit.ByHeader("X-Api-Key"))
	web.Handle("GET /hello", byAddress(limited(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = fmt.Fprintf(w, "Hello %s\n", r.URL.Query().Get("name"))
	}))))
	return rpc, web, nil
}

type greeter struct{ pb.UnimplementedGreeterServer }

func (greeter) SayHello(_ context.Context, in *pb.HelloRequest) (*pb.HelloReply, error) {
	return &pb.HelloReply{Message: "Hello " + in.GetName()}, nil
}
