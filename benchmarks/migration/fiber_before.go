package migration

import (
	"time"

	"github.com/gofiber/fiber/v2"
	"github.com/gofiber/fiber/v2/middleware/limiter"
)

// FiberBefore limits each API key to 20 requests in 30 seconds. Failed requests don't count.
func FiberBefore(app *fiber.App) {
	app.Use(limiter.New(limiter.Config{
		Max:                20,
		Expiration:         30 * time.Second,
		KeyGenerator:       func(c *fiber.Ctx) string { return c.Get("X-Api-Key") },
		SkipFailedRequests: true,
	}))
}
