package fiberlimit_test

import (
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/gofiber/fiber/v3"
	"github.com/gofiber/fiber/v3/middleware/timeout"

	"github.com/tokenbucket-go/ratelimit/core"
	"github.com/tokenbucket-go/ratelimit/fiberlimit/v3"
)

// Fiber's timeout middleware restores the request's context in a goroutine while the limiter returns tokens. If the
// refund read the context from fiber again, -race would report it.
func TestRefundAfterATimeoutHasNoRace(t *testing.T) {
	limiter := core.Must(core.NewLimiter(core.NewMemoryStore(), core.Policy{Name: "test", Limits: []core.Limit{core.PerDay(5)}}))
	app := fiber.New()
	app.Use(fiberlimit.New(limiter, fiberlimit.Global("all"), fiberlimit.WithRefund(func(_ fiber.Ctx, status int) bool { return status >= 400 })))
	app.Get("/", timeout.New(func(c fiber.Ctx) error { <-c.Context().Done(); return c.Context().Err() }, timeout.Config{Timeout: time.Millisecond}))
	for range 50 {
		res, err := app.Test(httptest.NewRequest(http.MethodGet, "/", nil), fiber.TestConfig{Timeout: 20 * time.Second})
		if err != nil {
			t.Fatal(err)
		}
		if res.StatusCode != http.StatusRequestTimeout {
			t.Fatalf("answered %d, want 408: every request is refunded, so none is denied", res.StatusCode)
		}
	}
}
