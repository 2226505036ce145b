// A fiber app: everybody by address, behind a proxy on this host, and a limit of its own on one
// route. Try:
//
//	go run ./examples/fiber                        # buckets in this process
//	go run ./examples/fiber -redis localhost:6379  # buckets shared through Redis
//	curl -i localhost:8080/
//	curl -i -H 'X-Forwarded-For: 203.0.113.9' localhost:8080/
package main

import (
	"flag"
	"log"

	"github.com/gofiber/fiber/v2"
	"github.com/redis/go-redis/v9"

	"github.com/tokenbucket-go/ratelimit/core"
	"github.com/tokenbucket-go/ratelimit/core/redisstore"
	"github.com/tokenbucket-go/ratelimit/fiberlimit"
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
		store = redisstore.New(redis.NewClient(&redis.Options{Addr: *redisAddr, ContextTimeoutEnabled: true}), redisstore.WithPrefix("fiber-example:"))
	}
	perIP := core.Must(core.NewLimiter(store, core.Policy{
		Name:   "per-ip",
		Limits: []core.Limit{core.PerMinute(5)},
	}))
	export := core.Must(core.NewLimiter(store, core.Policy{
		Name:   "export",
		Limits: []core.Limit{core.PerHour(2)},
	}))

	app := fiber.New(fiber.Config{DisableStartupMessage: true})
	app.Use(fiberlimit.New(perIP, fiberlimit.ByIP(core.TrustProxies("127.0.0.1", "::1"))))
	app.Get("/", func(c *fiber.Ctx) error { return c.SendString("hello\n") })
	app.Get("/export", fiberlimit.New(export, fiberlimit.Global("export")), func(c *fiber.Ctx) error {
		return c.SendString("a large file\n")
	})

	log.Printf("listening on http://%s", *addr)
	log.Fatal(app.Listen(*addr))
}
