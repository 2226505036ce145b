package fiberlimit_test

import (
	"context"
	"net"
	"net/http"
	"testing"
	"time"

	"github.com/gofiber/fiber/v2"
	recovery "github.com/gofiber/fiber/v2/middleware/recover"
	"github.com/gofiber/fiber/v2/middleware/timeout"
	"github.com/stretchr/testify/require"

	"github.com/tokenbucket-go/ratelimit/fiberlimit"
	"github.com/tokenbucket-go/ratelimit/internal/endings"
)

func TestMiddlewareThatAnswers(t *testing.T) {
	endings.Run(t, "fiber v2", endings.InRealTime, func(t *testing.T, c endings.Case) int {
		slots := fiberlimit.New(c.Slots, fiberlimit.Global(endings.Key))
		calls := fiberlimit.New(c.Calls, fiberlimit.Global(endings.Key), fiberlimit.WithRefund(func(_ *fiber.Ctx, status int) bool { return c.See(status) }))
		config := fiber.Config{DisableStartupMessage: true}
		use := func(c *fiber.Ctx) error { return c.Next() }
		handler := func(c *fiber.Ctx) error { return c.SendStatus(http.StatusOK) }
		switch c.Middleware {
		case "timeout.NewWithContext":
			var late context.Context
			use = timeout.NewWithContext(func(c *fiber.Ctx) error { // the limiter decides, however late it gets a turn
				late = c.UserContext()
				c.SetUserContext(context.WithoutCancel(late))
				return c.Next()
			}, time.Millisecond)
			handler = func(*fiber.Ctx) error {
				<-late.Done()
				return late.Err()
			}
		case "recover.New":
			use = recovery.New()
			handler = func(*fiber.Ctx) error { panic("a handler's mistake") }
		case "Config.BodyLimit":
			config.BodyLimit = 8
		default:
			t.Fatalf("the test does not know %q", c.Middleware)
		}
		app := fiber.New(config)
		for _, middleware := range endings.Order(c, use, slots, calls) {
			app.Use(middleware)
		}
		app.Post("/", handler)
		address := started(t, func(l net.Listener) error { return listen(app, l) })
		client := http.Client{Timeout: endings.Patience} // it accepts gzip
		res, err := client.Post("http://"+address, "text/plain", endings.Request().Body)
		require.NoError(t, err)
		require.NoError(t, res.Body.Close())
		return res.StatusCode
	})
}
