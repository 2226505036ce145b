package migration

import (
	"time"

	"github.com/gofiber/fiber/v2"
	"github.com/gofiber/fiber/v2/middleware/limiter"

	"github.com/tokenbucket-go/ratelimit/core"
	"github.com/tokenbucket-go/ratelimit/fiberlimit"
)

// FiberBefore limits each API key to 20 requests in 30 minutes. Failed requests
// don't count.
func FiberBefore(app *fiber.App) {
	app.Use(limiter.New(limiter.Config{
		Max:                20,
		Expiration:         30 * time.Minute,
		KeyGenerator:       func(c *fiber.Ctx) string { return c.Get("X-Api-Key") },
		SkipFailedRequests: true,
	}))
}

// FiberAfter limits each API key to 20 requests in 30 minutes. Failed requests
// don't count.
func FiberAfter(app *fiber.App) {
	limiter := core.Must(core.NewLimiter(core.NewMemoryStore(), core.Policy{
		Name: "api", Limits: []core.Limit{core.Per(20, 30*time.Minute)},
	}))
	app.Use(fiberlimit.New(limiter, fiberlimit.ByHeader("X-Api-Key"),
		fiberlimit.WithRefund(func(_ *fiber.Ctx, status int) bool { return status >= 400 })))
}
