// Customers with plans. The policy has the limits of each plan, and a database
// says which plan a customer has. The app keeps that for some seconds, so most
// requests need no query. Operators see who is denied, and change plans, on a
// port of their own. Replace database, the limits and the routes; the rest can
// stay.
//
//	REDIS_URL=redis://localhost:6379 go run ./examples/plans
//	curl -i -H 'X-Api-Key: ann-secret' localhost:8080/reports               # free: RateLimit-Policy says 5 a minute
//	curl -i -X POST 'localhost:8081/customers/ann/plan?name=pro'            # ann has paid
//	curl -i -H 'X-Api-Key: ann-secret' localhost:8080/reports               # pro: 60 a minute; what was used stays used
//	curl localhost:8081/limits                                              # who is denied most; a page for browsers
package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
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

	"github.com/tokenbucket-go/ratelimit/adminlimit"
	"github.com/tokenbucket-go/ratelimit/core"
	"github.com/tokenbucket-go/ratelimit/core/redisstore"
	"github.com/tokenbucket-go/ratelimit/httplimit"
	"github.com/tokenbucket-go/ratelimit/promlimit"
)

// app returns what clients reach, and what only operators may reach.
func app(
	store core.Store, observe core.LimiterOption, customers *customers, proxies ...string,
) (public, operators http.Handler) {
	var denied adminlimit.Top
	limiter := func(policy core.Policy) *core.Limiter {
		return core.Must(core.NewLimiter(store, policy, observe, core.WithObserver(denied.Observe)))
	}
	perAddress := limiter(core.Policy{Name: "address", Limits: []core.Limit{core.PerMinute(300).WithBurst(100)}})
	api := limiter(core.Policy{
		Name:   "api",
		Limits: []core.Limit{core.PerMinute(2).WithName("minute")}, // of customers without a plan
		Plans: map[string][]core.Limit{ // limits of the same name are one bucket, so a new plan does not refill it
			"free": {core.PerMinute(5).WithName("minute")},
			"pro": {
				core.PerMinute(60).WithName("minute").WithBurst(20),
				core.PerDay(10_000).WithName("day").In(time.UTC),
			},
		},
	})

	mux := http.NewServeMux()
	mux.HandleFunc("GET /health", health)
	// By the customer, and the plan, that the database has for the key. What
	// clients say of themselves they can make up.
	limited := httplimit.New(api,
		func(r *http.Request) (string, error) { return core.JoinKey("customer", customerOf(r).name), nil },
		httplimit.WithPlan(func(r *http.Request) (string, error) { return customerOf(r).plan, nil }))
	mux.Handle("GET /reports", customers.authenticate(limited(http.HandlerFunc(reports))))
	// In front of the keys, or each guess would be a query. It counts requests
	// without a route too.
	public = httplimit.New(perAddress, httplimit.ByIP(core.TrustProxies(proxies...)), httplimit.WithSkip(isHealth))(mux)

	admin := http.NewServeMux()
	admin.Handle("/metrics", promhttp.Handler())
	// Everybody who reaches the port may look. Put your login here; then it can
	// be Writable too.
	everybody := func(*http.Request) (string, bool) { return "somebody", true }
	admin.Handle("/limits", core.Must(adminlimit.New(everybody, adminlimit.Config{
		Limiters: []*core.Limiter{perAddress, api}, Denied: &denied, Hosts: []string{"localhost", "127.0.0.1"},
	})))
	// An upgrade is a word of your payment: verify its signature here. A
	// customer has no way to say it.
	admin.HandleFunc("POST /customers/{name}/plan", func(w http.ResponseWriter, r *http.Request) {
		plan := r.FormValue("name")
		if _, known := api.Policy().Plans[plan]; !known {
			http.Error(w, "no such plan", http.StatusBadRequest)
			return
		}
		if err := customers.setPlan(r.Context(), r.PathValue("name"), plan); err != nil {
			http.Error(w, err.Error(), http.StatusNotFound)
			return
		}
		w.WriteHeader(http.StatusNoContent)
	})
	// No page of another site can post through an operator's browser.
	return public, http.NewCrossOriginProtection().Handler(admin)
}

func isHealth(r *http.Request) bool { return r.URL.Path == "/health" }

func reports(w http.ResponseWriter, r *http.Request) {
	_, _ = fmt.Fprintf(w, "a report for %s\n", customerOf(r).name)
}

func health(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte("ok\n")) }

// What follows is the same in all examples.

// main reads ADDR, where clients connect; ADMIN_ADDR, which clients must not
// reach; REDIS_URL; and TRUSTED_PROXIES, the addresses or ranges of proxies in
// front.
func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	var store core.Store = core.NewMemoryStore()
	if url := os.Getenv("REDIS_URL"); url != "" {
		redis, err := redisstore.Open(url, redisstore.WithPrefix("plans-example:"))
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
	customers := newCustomers(newDatabase())
	proxies := strings.Fields(strings.ReplaceAll(os.Getenv("TRUSTED_PROXIES"), ",", " "))
	handler, operators := app(store, core.WithObserver(metrics.Observe), customers, proxies...)
	public := newServer(cmp.Or(os.Getenv("ADDR"), "localhost:8080"), handler)
	admin := newServer(cmp.Or(os.Getenv("ADMIN_ADDR"), "localhost:8081"), operators)
	if err := serve(ctx, public, admin); err != nil {
		log.Fatal(err)
	}
}

// newServer bounds whatever a client could make large, or never finish.
func newServer(addr string, handler http.Handler) *http.Server {
	return &http.Server{
		Addr: addr, Handler: http.MaxBytesHandler(handler, 64<<10), MaxHeaderBytes: 16 << 10,
		ReadHeaderTimeout: 5 * time.Second, ReadTimeout: 15 * time.Second,
		WriteTimeout: 30 * time.Second, IdleTimeout: time.Minute,
	}
}

// grace is how long requests may run on after SIGTERM.
var grace = 15 * time.Second

// serve serves until ctx ends, as it does by SIGTERM. It returns when all
// requests have ended. After grace it cancels those that still run, so that
// their handlers return and their slots come back.
func serve(ctx context.Context, servers ...*http.Server) error {
	requests, cancel := context.WithCancel(context.Background())
	defer cancel()
	failed := make(chan error, len(servers))
	for _, s := range servers {
		l, err := net.Listen("tcp", s.Addr)
		if err != nil {
			return err
		}
		log.Printf("listening on http://%s", l.Addr())
		s.BaseContext = func(net.Listener) context.Context { return requests }
		go func() { failed <- s.Serve(l) }()
	}
	select {
	case err := <-failed:
		return err
	case <-ctx.Done():
	}
	time.AfterFunc(grace, cancel)
	atMost, done := context.WithTimeout(context.Background(), grace+5*time.Second)
	defer done()
	var errs []error
	for _, s := range servers {
		errs = append(errs, s.Shutdown(atMost))
	}
	return errors.Join(errs...)
}
