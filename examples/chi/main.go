// A chi app: one limit in the root Use, by route and tenant, with the plan that the server knows of the tenant.
// Try:
//
//	go run ./examples/chi                        # buckets in this process
//	go run ./examples/chi -redis localhost:6379  # buckets shared through Redis
//	curl -i -H 'X-Api-Key: ann-secret' localhost:8080/items/7   # of 5
//	curl -i -H 'X-Api-Key: acme-secret' localhost:8080/items/7  # of 50
//	curl -i -H 'X-Api-Key: made-up' localhost:8080/items/7      # 400
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

// tenants is by API key. What a client says of itself, such as its plan, it can make up.
var tenants = map[string]struct{ name, plan string }{
	"ann-secret":  {"ann", ""}, // the policy's own limits
	"acme-secret": {"acme", "pro"},
}

func byTenant(q *http.Request) (string, error) {
	tenant, ok := tenants[q.Header.Get("X-Api-Key")]
	if !ok {
		return "", core.ErrNoKey // answered 400
	}
	return core.JoinKey("tenant", tenant.name), nil
}

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
	limiter := core.Must(core.NewLimiter(store, core.Policy{
		Name:   "tenant",
		Limits: []core.Limit{core.PerMinute(5)},
		Plans:  map[string][]core.Limit{"pro": {core.PerMinute(50)}},
	}))
	skip := chilimit.WithSkip(func(q *http.Request) bool { return q.URL.Path == "/health" })
	addresses := core.Must(core.NewLimiter(store, core.Policy{
		Name:   "address",
		Limits: []core.Limit{core.PerMinute(100).WithBurst(50)},
	}))

	r := chi.NewRouter()
	r.Use(chilimit.New(addresses, chilimit.ByIP(), skip)) // who guesses at keys is limited too
	r.Use(chilimit.New(limiter, chilimit.Join(chilimit.ByRoute(), byTenant), skip,
		chilimit.WithPlan(func(q *http.Request) (string, error) {
			return tenants[q.Header.Get("X-Api-Key")].plan, nil
		}),
	))
	r.Get("/health", func(w http.ResponseWriter, q *http.Request) { fmt.Fprintln(w, "well") })
	r.Get("/items/{id}", func(w http.ResponseWriter, q *http.Request) {
		res, _ := chilimit.FromContext(q.Context())
		fmt.Fprintf(w, "item %s; %d tokens left\n", chi.URLParam(q, "id"), res.Remaining)
	})

	log.Printf("listening on http://%s", *addr)
	log.Fatal(http.ListenAndServe(*addr, r))
}
