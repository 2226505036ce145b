package migration

import (
	"time"

	"github.com/gofiber/fiber/v2"
	"github.com/gofiber/fiber/v2/middleware/limiter"

	"github.com/tokenbucket-go/ratelimit/core"
	"github.com/tokenbucket-go/ratelimit/fiberlimit"
)

// FiberBefore is fiber's own limiter.
func FiberBefore(app *fiber.App) {
	app.Use(limiter.New(limiter.Config{
		Max:                20,
		Expiration:         30 * time.Second,
		KeyGenerator:       func(c *fiber.Ctx) string { return c.Get("X-Api-Key") },
		SkipFailedRequests: true,
	}))
}

// FiberAfter is the same with this library.
func FiberAfter(app *fiber.App) {
	limiter := core.Must(core.NewLimiter(core.NewMemoryStore(), core.Policy{
		Name:   "api",
		Limits: []core.Limit{{Capacity: 20, RefillRate: 20, RefillInterval: 30 * time.Second}},
	}))
	app.Use(fiberlimit.New(limiter, fiberlimit.ByHeader("X-Api-Key"),
		fiberlimit.WithRefund(func(_ *fiber.Ctx, status int) bool { return status >= 400 })))
}
