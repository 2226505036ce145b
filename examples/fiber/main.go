// A fiber app to copy: an address may send 300 requests a minute, and a user
// 60. Replace users, the limits and the routes; the rest can stay. With
// REDIS_URL replicas share the buckets:
//
//	REDIS_URL=redis://localhost:6379 go run ./examples/fiber
//	curl -i -H 'X-Api-Key: ann-secret' -d '{"text": "tea"}' localhost:8080/search
package main

import (
	"cmp"
	"context"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/json"
	"errors"
	"log"
	"net"
	"net/http"
	"os"
	"os/signal"
	"strings"
	"syscall"
	"time"

	"github.com/gofiber/fiber/v2"
	"github.com/gofiber/fiber/v2/middleware/recover"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"github.com/tokenbucket-go/ratelimit/core"
	"github.com/tokenbucket-go/ratelimit/core/redisstore"
	"github.com/tokenbucket-go/ratelimit/fiberlimit"
	"github.com/tokenbucket-go/ratelimit/promlimit"
)

func app(store core.Store, observe core.LimiterOption, proxies ...string) *fiber.App {
	perAddress := core.Must(core.NewLimiter(store, core.Policy{
		Name:   "address",
		Limits: []core.Limit{core.PerMinute(300).WithBurst(100)},
	}, observe))
	perUser := core.Must(core.NewLimiter(store, core.Policy{
		Name:   "user",
		Limits: []core.Limit{core.PerMinute(60).WithBurst(10), core.PerDay(10_000)},
	}, observe))

	// A bound for whatever a client could make large, or never finish.
	r := fiber.New(fiber.Config{
		DisableStartupMessage: true,
		BodyLimit:             64 << 10, ReadBufferSize: 16 << 10, // of the header
		ReadTimeout: 15 * time.Second, WriteTimeout: 30 * time.Second, IdleTimeout: time.Minute,
	})
	r.Use(recover.New())
	// In front of the keys, or guessing at them would be free. It counts
	// requests without a route too.
	r.Use(fiberlimit.New(perAddress, fiberlimit.ByIP(core.TrustProxies(proxies...)), fiberlimit.WithSkip(isHealth)))
	r.Get("/health", func(c *fiber.Ctx) error { return c.SendString("ok\n") })
	r.Use(refusePacked)
	// By the verified user. By the field X-Api-Key each made-up value would
	// have a full bucket.
	byUser := fiberlimit.ByContextValue("user")
	r.Post("/search", authenticate, fiberlimit.New(perUser, byUser), func(c *fiber.Ctx) error {
		var query map[string]any
		if err := json.Unmarshal(c.Body(), &query); err != nil {
			return fiber.ErrBadRequest
		}
		return c.JSON(fiber.Map{"found": query})
	})
	return r
}

// refusePacked is here because c.Body and c.BodyParser unpack without a bound:
// a few KiB can become GiB.
func refusePacked(c *fiber.Ctx) error {
	if c.Get(fiber.HeaderContentEncoding) != "" {
		return fiber.ErrUnsupportedMediaType
	}
	return c.Next()
}

func isHealth(c *fiber.Ctx) bool { return c.Path() == "/health" }

func authenticate(c *fiber.Ctx) error {
	user := userOf(c.Get("X-Api-Key"))
	if user == "" {
		return fiber.ErrUnauthorized
	}
	c.Locals("user", user)
	return c.Next()
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

// What follows is the same in all examples but for serve, because fiber is no
// net/http.

// main reads ADDR, where clients connect; ADMIN_ADDR, which clients must not
// reach; REDIS_URL; and TRUSTED_PROXIES, the addresses or ranges of proxies in
// front.
func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	var store core.Store = core.NewMemoryStore()
	if url := os.Getenv("REDIS_URL"); url != "" {
		redis, err := redisstore.Open(url, redisstore.WithPrefix("fiber-example:"))
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
	public := app(store, core.WithObserver(metrics.Observe), proxies...)
	admin := &http.Server{
		Handler: promhttp.Handler(), ReadHeaderTimeout: 5 * time.Second, WriteTimeout: 30 * time.Second,
	}
	if err := serve(ctx, public, admin); err != nil {
		log.Fatal(err)
	}
}

// serve serves until ctx ends, as it does by SIGTERM. Then requests have 20
// seconds to end, and their slots come back.
func serve(ctx context.Context, public *fiber.App, admin *http.Server) error {
	clients, err := net.Listen("tcp", cmp.Or(os.Getenv("ADDR"), "localhost:8080"))
	if err != nil {
		return err
	}
	operators, err := net.Listen("tcp", cmp.Or(os.Getenv("ADMIN_ADDR"), "localhost:8081"))
	if err != nil {
		return err
	}
	log.Printf("listening on http://%s", clients.Addr())
	log.Printf("listening on http://%s", operators.Addr())
	failed := make(chan error, 2)
	go func() { failed <- public.Listener(clients) }()
	go func() { failed <- admin.Serve(operators) }()
	select {
	case err := <-failed:
		return err
	case <-ctx.Done():
	}
	return errors.Join(public.ShutdownWithTimeout(20*time.Second), admin.Close())
}
