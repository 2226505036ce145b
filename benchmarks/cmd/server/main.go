// Server is a whole web application with a limiter on Redis, for a load generator. It prints its address and ends when its
// standard input does.
package main

import (
	"flag"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"os"

	"github.com/tokenbucket-go/ratelimit/benchmarks/internal/apps"
	"github.com/tokenbucket-go/ratelimit/benchmarks/internal/peers"
)

func main() {
	log.SetFlags(0)
	framework := flag.String("framework", "gin", "gin or chi")
	limiter := flag.String("limiter", peers.Library, "the limiter in front of the route")
	redis := flag.String("redis", "", "address of the Redis server")
	db := flag.Int("db", 0, "its database that the limiter uses")
	flag.Parse()
	app, err := apps.Named(*framework, *limiter)
	if err != nil {
		log.Fatalf("server: %v", err)
	}
	handler, err := app.New(peers.Connection{Addr: *redis, DB: *db}, peers.Roomy)
	if err != nil {
		log.Fatalf("server: %s with %s: %v", *framework, *limiter, err)
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		log.Fatalf("server: %v", err)
	}
	// Nothing is logged of requests that wrk cuts off when a round ends. Others that fail are seen by it.
	server := &http.Server{Handler: handler, ErrorLog: log.New(io.Discard, "", 0)}
	go func() { log.Fatalf("server: %v", server.Serve(l)) }()
	fmt.Println(l.Addr())
	_, _ = io.Copy(io.Discard, os.Stdin)
}
