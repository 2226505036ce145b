// A chi app: one limit in the root Use, by route and tenant, with other limits for paying tenants.
// Try:
//
//	go run ./examples/chi                        # buckets in this process
//	go run ./examples/chi -redis localhost:6379  # buckets shared through Redis
//	curl -i -H 'X-Tenant: acme' localhost:8080/items/7
//	curl -i -H 'X-Tenant: acme' -H 'X-Plan: pro' localhost:8080/items/7  # 50 at most now: the bucket keeps its tokens, and fills faster
package main

import (
	"flag"
	"fmt"
	"log"
	"net/http"

	"github.com/go-chi/chi/v5"
	"github.com/redis/go-redis/v9"

	"github.com/tokenbucket-go/ratelimit/chilimit"
	"github.com/tokenbucket-go/ratelimit/core"
	"github.com/tokenbucket-go/ratelimit/core/redisstore"
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
		store = redisstore.New(redis.NewClient(&redis.Options{Addr: *redisAddr, ContextTimeoutEnabled: true}), redisstore.WithPrefix("chi-example:"))
	}
	tenants := core.Must(core.NewLimiter(store, core.Policy{
		Name:   "tenant",
		Limits: []core.Limit{core.PerMinute(5)},
	}))
	plans := map[string][]core.Limit{"pro": {core.PerMinute(50)}}

	r := chi.NewRouter()
	r.Use(chilimit.New(tenants,
		chilimit.Join(chilimit.ByRoute(), chilimit.ByHeader("X-Tenant")),
		chilimit.WithLimits(func(q *http.Request) ([]core.Limit, error) {
			return plans[q.Header.Get("X-Plan")], nil // nil: the policy's own
		}),
		chilimit.WithSkip(func(q *http.Request) bool { return q.URL.Path == "/health" }),
	))
	r.Get("/health", func(w http.ResponseWriter, q *http.Request) { fmt.Fprintln(w, "well") })
	r.Get("/items/{id}", func(w http.ResponseWriter, q *http.Request) {
		res, _ := chilimit.FromContext(q.Context())
		fmt.Fprintf(w, "item %s; %d tokens left\n", chi.URLParam(q, "id"), res.Remaining)
	})

	log.Printf("listening on http://%s", *addr)
	log.Fatal(http.ListenAndServe(*addr, r))
}
