package fiberlimit_test

import (
	"net/http"
	"testing"

	"github.com/gofiber/fiber/v2"

	"github.com/tokenbucket-go/ratelimit/core"
	"github.com/tokenbucket-go/ratelimit/fiberlimit"
	"github.com/tokenbucket-go/ratelimit/internal/fast/fasttest"
	"github.com/tokenbucket-go/ratelimit/internal/limittest"
)

func TestMiddlewareAddsFewAllocations(t *testing.T) {
	serve := func(middleware fiber.Handler) func() {
		app := fiber.New(fiber.Config{DisableStartupMessage: true})
		app.Use(middleware)
		app.Get("/", func(c *fiber.Ctx) error { return c.SendStatus(http.StatusNoContent) })
		return fasttest.Request(t, app.Handler())
	}
	type key struct{}
	limiter := limittest.Limiter(t, core.NewMemoryStore(), "api", core.PerMinute(1_000_000))
	limittest.CheckAdded(t,
		serve(func(c *fiber.Ctx) error { return c.Next() }),
		serve(func(c *fiber.Ctx) error {
			c.Locals(key{}, t)
			return c.Next()
		}),
		serve(fiberlimit.New(limiter, fiberlimit.ByIP())))
}
