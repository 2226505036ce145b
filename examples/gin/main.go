// A gin app to copy: an address may send 300 requests a minute, and a user 60.
// Replace users, the limits and the routes; the rest can stay. With REDIS_URL
// replicas share the buckets:
//
//	REDIS_URL=redis://localhost:6379 go run ./examples/gin
//	curl -i -H 'X-Api-Key: ann-secret' -d '{"text": "tea"}' localhost:8080/search
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

	"github.com/gin-gonic/gin"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"github.com/tokenbucket-go/ratelimit/core"
	"github.com/tokenbucket-go/ratelimit/core/redisstore"
	"github.com/tokenbucket-go/ratelimit/ginlimit"
	"github.com/tokenbucket-go/ratelimit/promlimit"
)

func app(store core.Store, observe core.LimiterOption, proxies ...string) http.Handler {
	perAddress := core.Must(core.NewLimiter(store, core.Policy{
		Name:   "address",
		Limits: []core.Limit{core.PerMinute(300).WithBurst(100)},
	}, observe))
	perUser := core.Must(core.NewLimiter(store, core.Policy{
		Name:   "user",
		Limits: []core.Limit{core.PerMinute(60).WithBurst(10), core.PerDay(10_000)},
	}, observe))

	r := gin.New()
	r.RedirectTrailingSlash = false // such answers would be outside of the limits
	r.Use(gin.Recovery())
	r.GET("/health", func(c *gin.Context) { c.String(http.StatusOK, "ok\n") }) // before the limits, so outside of them
	// In front of the keys, or guessing at them would be free. It counts
	// requests without a route too.
	r.Use(ginlimit.New(perAddress, ginlimit.ByIP(core.TrustProxies(proxies...))))
	// By the verified user. By the field X-Api-Key each made-up value would
	// have a full bucket.
	byUser := ginlimit.ByContextValue("user")
	r.POST("/search", authenticate, ginlimit.New(perUser, byUser), func(c *gin.Context) {
		if query := map[string]any{}; c.BindJSON(&query) == nil { // or it has answered 400, as for more than 64 KiB
			c.JSON(http.StatusOK, gin.H{"found": query})
		}
	})
	return r
}

func authenticate(c *gin.Context) {
	user := userOf(c.GetHeader("X-Api-Key"))
	if user == "" {
		c.AbortWithStatus(http.StatusUnauthorized)
		return
	}
	c.Set("user", user)
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

// What follows is the same in all examples.

// main reads ADDR, where clients connect; ADMIN_ADDR, which clients must not
// reach; REDIS_URL; and TRUSTED_PROXIES, the addresses or ranges of proxies in
// front.
func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	var store core.Store = core.NewMemoryStore()
	if url := os.Getenv("REDIS_URL"); url != "" {
		redis, err := redisstore.Open(url, redisstore.WithPrefix("gin-example:"))
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
	handler := app(store, core.WithObserver(metrics.Observe), proxies...)
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
