package fiberlimit_test

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/gofiber/fiber/v2"

	"github.com/tokenbucket-go/ratelimit/core"
	"github.com/tokenbucket-go/ratelimit/fiberlimit"
)

// A request that RestartRouting routes again passes the same middleware a
// second time, and is charged once.
func TestRestartRoutingChargesOnce(t *testing.T) {
	limiter := core.Must(core.NewLimiter(core.NewMemoryStore(), core.Policy{Name: "api", Limits: []core.Limit{core.PerDay(2)}}))
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
	for i, want := range []string{"200 1 true", "200 0 true", "429 Request cannot be satisfied as assigned quota has been exceeded"} {
		res, err := app.Test(httptest.NewRequest(http.MethodGet, "/old", nil))
		if err != nil {
			t.Fatal(err)
		}
		body, _ := io.ReadAll(res.Body)
		_ = res.Body.Close()
		if got := fmt.Sprint(res.StatusCode, " ", string(body)); got != want {
			t.Errorf("request %d was answered %q, want %q: each is charged once", i+1, got, want)
		}
	}
	if refunds != 2 {
		t.Errorf("WithRefund was called %d times for two allowed requests", refunds)
	}
}
