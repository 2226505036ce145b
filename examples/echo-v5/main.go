// An echo v5 app: an API key or else the client's address, all keys of an address together, and a login that counts
// failures only. Try:
//
//	go run ./examples/echo-v5                        # buckets in this process
//	go run ./examples/echo-v5 -redis localhost:6379  # buckets shared through Redis
//	curl -i localhost:8080/
//	curl -i -X POST 'localhost:8080/login?password=wrong'
package main

import (
	"flag"
	"log"
	"net/http"

	"github.com/labstack/echo/v5"
	"github.com/redis/go-redis/v9"

	"github.com/tokenbucket-go/ratelimit/core"
	"github.com/tokenbucket-go/ratelimit/core/redisstore"
	"github.com/tokenbucket-go/ratelimit/echolimit/v5"
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
		store = redisstore.New(redis.NewClient(&redis.Options{Addr: *redisAddr, ContextTimeoutEnabled: true}), redisstore.WithPrefix("echo-v5-example:"))
	}
	api := core.Must(core.NewLimiter(store, core.Policy{
		Name:   "api",
		Limits: []core.Limit{core.PerMinute(5)},
	}))
	login := core.Must(core.NewLimiter(store, core.Policy{
		Name:   "login",
		Limits: []core.Limit{core.PerHour(10).WithBurst(3)},
	}))

	e := echo.New()
	// A client can make up keys, and each is a full bucket: so its address has one in front.
	e.Use(echolimit.PerIP(core.PerMinute(20)))
	e.GET("/", func(c *echo.Context) error {
		return c.String(http.StatusOK, "hello\n")
	}, echolimit.New(api, echolimit.FirstOf(echolimit.ByHeader("X-Api-Key"), echolimit.ByIP())))

	e.POST("/login", func(c *echo.Context) error {
		if c.QueryParam("password") != "right" {
			return echo.NewHTTPError(http.StatusUnauthorized, "wrong password")
		}
		return c.String(http.StatusOK, "welcome\n")
	}, echolimit.New(login, echolimit.ByIP(),
		echolimit.WithRefund(func(_ *echo.Context, status int) bool { return status < 400 })))

	log.Printf("listening on http://%s", *addr)
	if err := e.Start(*addr); err != nil {
		log.Fatal(err)
	}
}
