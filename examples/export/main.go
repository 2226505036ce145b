// Exports that take long: a user has one at a time and 20 an hour, and all
// users together have five at a time. Slots come back when an export is over,
// however it ends. Replace users, the limits and the rows; the rest can stay.
//
//	REDIS_URL=redis://localhost:6379 go run ./examples/export
//	curl -N -H 'X-Api-Key: ann-secret' localhost:8080/export &   # takes five seconds
//	curl -i -H 'X-Api-Key: ann-secret' localhost:8080/export     # 429: ann has one already
package main

import (
	"cmp"
	"context"
	"crypto/sha256"
	"crypto/subtle"
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

	"github.com/tokenbucket-go/ratelimit/core"
	"github.com/tokenbucket-go/ratelimit/core/redisstore"
	"github.com/tokenbucket-go/ratelimit/httplimit"
	"github.com/tokenbucket-go/ratelimit/promlimit"
)

func app(store core.Store, observe core.LimiterOption, export exporter, proxies ...string) http.Handler {
	limiter := func(name string, limits ...core.Limit) *core.Limiter {
		return core.Must(core.NewLimiter(store, core.Policy{Name: name, Limits: limits}, observe))
	}
	perAddress := limiter("address", core.PerMinute(300).WithBurst(100))
	// MaxHold frees the slots of a process that died. While an export runs the
	// middleware renews it.
	slot := core.InFlight(1).WithMaxHold(30 * time.Second)
	user := limiter("exports-of-user", slot.WithName("at-once"), core.PerHour(20).WithName("hourly"))
	all := limiter("exports", core.InFlight(5).WithMaxHold(30*time.Second))

	mux := http.NewServeMux()
	mux.HandleFunc("GET /health", health)
	// Together: who has an export already takes no slot from the others. By
	// verified users: five made-up ones would fill all.
	limited := httplimit.NewTogether([]httplimit.Rule{
		{Limiter: user, Key: httplimit.ByContextValue(userKey{})},
		{Limiter: all, Key: httplimit.Global("exports")},
	})
	mux.Handle("GET /export", authenticate(limited(export)))
	// In front of the keys, or guessing at them would be free. It counts
	// requests without a route too.
	return httplimit.New(perAddress, httplimit.ByIP(core.TrustProxies(proxies...)), httplimit.WithSkip(isHealth))(mux)
}

func isHealth(r *http.Request) bool { return r.URL.Path == "/health" }

// exporter streams rows.
type exporter struct {
	rows   int
	every  time.Duration // a row
	within time.Duration // which a client must read a row, or it is cut off
	atMost time.Duration // for a whole export, or a client that reads slowly would keep its slots
}

func (e exporter) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	ctx, cancel := context.WithTimeout(r.Context(), e.atMost)
	defer cancel()
	client := http.NewResponseController(w)
	w.Header().Set("Content-Type", "text/csv")
	for row := range e.rows {
		_ = client.SetWriteDeadline(time.Now().Add(e.within)) // in place of the server's WriteTimeout; net/http has it
		_, err := fmt.Fprintf(w, "%d,%s\n", row+1, r.Context().Value(userKey{}))
		if errors.Join(err, client.Flush()) != nil {
			panic(http.ErrAbortHandler) // the client has gone, or does not read
		}
		select {
		case <-time.After(e.every):
		case <-ctx.Done():
			panic(http.ErrAbortHandler) // so that nobody takes it for a whole export
		}
	}
}

type userKey struct{} // of the request's context

func authenticate(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		user := userOf(r.Header.Get("X-Api-Key"))
		if user == "" {
			http.Error(w, "unknown API key", http.StatusUnauthorized)
			return
		}
		next.ServeHTTP(w, r.WithContext(context.WithValue(r.Context(), userKey{}, user)))
	})
}

func health(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte("ok\n")) }

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

// What follows is the same in all examples.

// main reads ADDR, where clients connect; ADMIN_ADDR, which clients must not
// reach; REDIS_URL; and TRUSTED_PROXIES, the addresses or ranges of proxies in
// front.
func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	var store core.Store = core.NewMemoryStore()
	if url := os.Getenv("REDIS_URL"); url != "" {
		redis, err := redisstore.Open(url, redisstore.WithPrefix("export-example:"))
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
	export := exporter{rows: 10, every: time.Second / 2, within: 10 * time.Second, atMost: 5 * time.Minute}
	proxies := strings.Fields(strings.ReplaceAll(os.Getenv("TRUSTED_PROXIES"), ",", " "))
	handler := app(store, core.WithObserver(metrics.Observe), export, proxies...)
	public := newServer(cmp.Or(os.Getenv("ADDR"), "localhost:8080"), handler)
	admin := newServer(cmp.Or(os.Getenv("ADMIN_ADDR"), "localhost:8081"), promhttp.Handler())
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
