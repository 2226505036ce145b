// Connect handlers for clients of Connect, gRPC and gRPC-Web. Greet is limited to five calls a minute of each API key, or else of each
// address, and thirty of all keys of an address. Count streams: each client has at most two such streams at once, and an address ten. Try:
//
//	cd examples/extra/connect
//	go run .                                    # buckets in this process
//	go run . -redis redis://localhost:6379      # buckets shared through Redis
//
//	greet() { curl -i -H 'Content-Type: application/json' -H "X-Api-Key: $1" -d '"Ann"' localhost:8080/demo.v1.Demo/Greet; }
//	for i in 1 2 3 4 5 6; do greet ann-key; done   # the sixth is a 429, with Retry-After, and details in its body
//	greet bob-key                                  # 200: another key has its own bucket
package main

import (
	"context"
	"flag"
	"log"
	"net/http"
	"strconv"
	"time"

	"connectrpc.com/connect"
	"google.golang.org/protobuf/types/known/wrapperspb"

	"github.com/tokenbucket-go/ratelimit/connectlimit"
	"github.com/tokenbucket-go/ratelimit/core"
	"github.com/tokenbucket-go/ratelimit/core/redisstore"
)

// Your generated code has constants for procedures.
const (
	greet = "/demo.v1.Demo/Greet"
	count = "/demo.v1.Demo/Count"
)

func main() {
	addr := flag.String("addr", "localhost:8080", "address to listen on")
	url := flag.String("redis", "", "URL of a Redis server; empty keeps the buckets in this process")
	flag.Parse()

	var store core.Store = core.NewMemoryStore()
	if *url != "" {
		store = core.Must(redisstore.Open(*url, redisstore.WithPrefix("connect-example:")))
	}
	protocols := new(http.Protocols) // clients of gRPC need HTTP/2, here without TLS
	protocols.SetHTTP1(true)
	protocols.SetUnencryptedHTTP2(true)
	server := &http.Server{Addr: *addr, Handler: newHandler(store, time.Second), Protocols: protocols, ReadHeaderTimeout: 5 * time.Second}
	log.Printf("listening on http://%s", *addr)
	log.Fatal(server.ListenAndServe())
}

// newHandler returns the service. Count sends a number at each tick.
func newHandler(store core.Store, tick time.Duration) http.Handler {
	calls := core.Must(core.NewLimiter(store, core.Policy{Name: "calls", Limits: []core.Limit{core.PerMinute(5)}}))
	streams := core.Must(core.NewLimiter(store, core.Policy{Name: "streams", Limits: []core.Limit{core.InFlight(2)}}))
	// A client can make up keys, and each is a full bucket: so its address has one in front.
	addressCalls := core.Must(core.NewLimiter(store, core.Policy{Name: "address-calls", Limits: []core.Limit{core.PerMinute(30)}}))
	addressStreams := core.Must(core.NewLimiter(store, core.Policy{Name: "address-streams", Limits: []core.Limit{core.InFlight(10)}}))
	client := connectlimit.FirstOf(connectlimit.ByHeader("X-Api-Key"), connectlimit.ByPeer())
	skip := connectlimit.WithSkip(connectlimit.HealthAndReflection) // if you serve these too

	mux := http.NewServeMux()
	mux.Handle(greet, connect.NewUnaryHandler(greet, func(_ context.Context, in *connect.Request[wrapperspb.StringValue]) (*connect.Response[wrapperspb.StringValue], error) {
		return connect.NewResponse(wrapperspb.String("Hello, " + in.Msg.GetValue() + "!")), nil
	}, connect.WithInterceptors(connectlimit.New(addressCalls, connectlimit.ByPeer(), skip), connectlimit.New(calls, client, skip))))
	mux.Handle(count, connect.NewServerStreamHandler(count, func(ctx context.Context, in *connect.Request[wrapperspb.Int32Value], s *connect.ServerStream[wrapperspb.StringValue]) error {
		for i := range in.Msg.GetValue() {
			if err := s.Send(wrapperspb.String(strconv.Itoa(int(i)))); err != nil {
				return err
			}
			select {
			case <-time.After(tick):
			case <-ctx.Done():
				return ctx.Err()
			}
		}
		return nil
	}, connect.WithInterceptors(connectlimit.New(addressStreams, connectlimit.ByPeer(), skip), connectlimit.New(streams, client, skip))))
	return mux
}
