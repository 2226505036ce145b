package fiberlimit_test

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/gofiber/fiber/v2"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/tokenbucket-go/ratelimit/core"
	"github.com/tokenbucket-go/ratelimit/fiberlimit"
	"github.com/tokenbucket-go/ratelimit/internal/limittest"
)

// A request that RestartRouting routes again passes the same middleware a
// second time, and is charged once.
func TestRestartRoutingChargesOnce(t *testing.T) {
	limiter := limittest.Limiter(t, core.NewMemoryStore(), "api", core.PerDay(2))
	app := fiber.New()
	refunds := 0
	app.Use(fiberlimit.New(limiter, fiberlimit.Global("all"), fiberlimit.WithRefund(func(*fiber.Ctx, int) bool { refunds++; return false })))
	app.Get("/old", func(c *fiber.Ctx) error {
		c.Path("/new")
		return c.RestartRouting()
	})
	app.Get("/new", func(c *fiber.Ctx) error {
		res, ok := fiberlimit.FromContext(c)
		return c.SendString(fmt.Sprint(res.Remaining, ok))
	})
	for _, want := range []string{"200 1 true", "200 0 true", "429 Request cannot be satisfied as assigned quota has been exceeded"} {
		res, err := app.Test(httptest.NewRequest(http.MethodGet, "/old", nil))
		require.NoError(t, err)
		body, _ := io.ReadAll(res.Body)
		require.NoError(t, res.Body.Close())
		assert.Equal(t, want, fmt.Sprint(res.StatusCode, " ", string(body)), "each is charged once")
	}
	assert.Equal(t, 2, refunds, "WithRefund is called once for each allowed request")
}
