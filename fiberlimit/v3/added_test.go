package fiberlimit_test

import (
	"net/http"
	"testing"

	"github.com/gofiber/fiber/v3"
	"github.com/valyala/fasthttp"

	"github.com/tokenbucket-go/ratelimit/core"
	"github.com/tokenbucket-go/ratelimit/fiberlimit/v3"
	"github.com/tokenbucket-go/ratelimit/internal/limittest"
)

func TestMiddlewareAddsFewAllocations(t *testing.T) {
	serve := func(middleware fiber.Handler) func() {
		app := fiber.New()
		app.Use(middleware)
		app.Get("/", func(c fiber.Ctx) error { return c.SendStatus(http.StatusNoContent) })
		c, handler := new(fasthttp.RequestCtx), app.Handler()
		return func() {
			c.ResetUserValues()
			c.Response.Reset()
			handler(c)
			if status := c.Response.StatusCode(); status != http.StatusNoContent {
				t.Fatalf("the premise: every request is allowed, and one was answered %d", status)
			}
		}
	}
	type key struct{}
	limiter := limittest.Limiter(t, core.NewMemoryStore(), "api", core.PerMinute(1_000_000))
	limittest.CheckAdded(t,
		serve(func(c fiber.Ctx) error { return c.Next() }),
		serve(func(c fiber.Ctx) error {
			c.Locals(key{}, t)
			return c.Next()
		}),
		serve(fiberlimit.New(limiter, fiberlimit.ByIP())))
}
