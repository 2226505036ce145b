package migration

import (
	"time"

	"github.com/gofiber/fiber/v2"

	"github.com/tokenbucket-go/ratelimit/core"
	"github.com/tokenbucket-go/ratelimit/fiberlimit"
)

// FiberAfter limits each API key to 20 requests in 30 seconds. Failed requests don't count.
func FiberAfter(app *fiber.App) {
	limiter := core.Must(core.NewLimiter(core.NewMemoryStore(), core.Policy{
		Name: "api", Limits: []core.Limit{core.Per(20, 30*time.Second)},
	}))
	app.Use(fiberlimit.New(limiter, fiberlimit.ByHeader("X-Api-Key"),
		fiberlimit.WithRefund(func(_ *fiber.Ctx, status int) bool { return status >= 400 })))
}
