package fiberlimit_test

import (
	"net"
	"testing"

	"github.com/gofiber/fiber/v2"

	"github.com/tokenbucket-go/ratelimit/core"
	"github.com/tokenbucket-go/ratelimit/fiberlimit"
	"github.com/tokenbucket-go/ratelimit/internal/fast/fasttest"
)

func TestFieldsAreFoundUnderAnySpelling(t *testing.T) {
	app := fiber.New(fiber.Config{DisableStartupMessage: true, DisableHeaderNormalizing: true})
	app.Get("/", func(c *fiber.Ctx) error {
		key, err := fiberlimit.ByHeader("X-Api-Key")(c)
		if err != nil {
			return err
		}
		ip, err := fiberlimit.ByIP(core.TrustProxies("127.0.0.0/8"))(c)
		if err != nil {
			return err
		}
		return c.SendString(key + " " + ip)
	})
	fasttest.FieldsAreFoundUnderAnySpelling(t, func(l net.Listener) error { return listen(app, l) })
}

func TestFieldOfTwoSpellingsIsRefused(t *testing.T) {
	limiter := core.Must(core.NewLimiter(core.NewMemoryStore(), core.Policy{Name: "test", Limits: []core.Limit{core.PerDay(3)}}))
	app := fiber.New(fiber.Config{DisableStartupMessage: true, DisableHeaderNormalizing: true})
	app.Get("/", fiberlimit.New(limiter, fiberlimit.FirstOf(fiberlimit.ByHeader("X-Api-Key"), fiberlimit.ByIP())),
		func(c *fiber.Ctx) error { return c.SendString(c.Get("X-Api-Key")) })
	fasttest.FieldOfTwoSpellingsIsRefused(t, func(l net.Listener) error { return listen(app, l) })
}
