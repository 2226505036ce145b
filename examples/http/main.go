// The standard library's mux: a daily quota for the whole site, new at midnight UTC, and 5 logins in 15
// minutes for each address. Try:
//
//	go run ./examples/http                        # buckets in this process
//	go run ./examples/http -redis localhost:6379  # buckets shared through Redis
//	curl -i localhost:8080/
//	curl -i -X POST localhost:8080/login
package main

import (
	"flag"
	"fmt"
	"log"
	"net/http"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/tokenbucket-go/ratelimit/core"
	"github.com/tokenbucket-go/ratelimit/core/redisstore"
	"github.com/tokenbucket-go/ratelimit/httplimit"
)

func main() {
	addr := flag.String("addr", "localhost:8080", "address to listen on")
	redisAddr := flag.String("redis", "", "address of a Redis server; empty keeps the buckets in this process")
	flag.Parse()
	if flag.NArg() > 0 {
		log.Fatalf("unexpected argument %q: flags are written as -redis localhost:6379", flag.Arg(0))
	}

	var store core.Store = core.NewMemoryStore()
	if *redisAddr != "" {
		store = redisstore.New(redis.NewClient(&redis.Options{Addr: *redisAddr, ContextTimeoutEnabled: true}), redisstore.WithPrefix("http-example:"))
	}
	daily := core.Must(core.NewLimiter(store, core.Policy{
		Name:   "daily",
		Limits: []core.Limit{core.PerDay(1000).WithMode(core.Aligned)},
	}))
	login := core.Must(core.NewLimiter(store, core.Policy{
		Name: "login",
		Limits: []core.Limit{
			{Capacity: 5, RefillRate: 5, RefillInterval: 15 * time.Minute, Mode: core.Stepped},
		},
	}))

	mux := http.NewServeMux()
	mux.HandleFunc("GET /{$}", func(w http.ResponseWriter, r *http.Request) { fmt.Fprintln(w, "hello") })
	mux.Handle("POST /login", httplimit.New(login, httplimit.ByIP())(
		http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { fmt.Fprintln(w, "welcome") })))

	log.Printf("listening on http://%s", *addr)
	log.Fatal(http.ListenAndServe(*addr, httplimit.New(daily, httplimit.Global("site"))(mux)))
}
