package fiberlimit_test

import (
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/gofiber/fiber/v2"

	"github.com/tokenbucket-go/ratelimit/core"
	"github.com/tokenbucket-go/ratelimit/fiberlimit"
)

var errNotFound = errors.New("no such row")

// TestRefundStatus: in fiber the error handler has the last word on the status, and that is the one
// WithRefund must go by.
func TestRefundStatus(t *testing.T) {
	mapping := func(c *fiber.Ctx, err error) error {
		if errors.Is(err, errNotFound) {
			return c.SendStatus(fiber.StatusNotFound)
		}
		return fiber.DefaultErrorHandler(c, err)
	}
	for _, test := range []struct {
		name    string
		handler fiber.Handler
		errors  fiber.ErrorHandler
	}{
		{"an answer", func(c *fiber.Ctx) error { return c.SendStatus(fiber.StatusAccepted) }, nil},
		{"an HTTP error", func(*fiber.Ctx) error { return fiber.ErrUnauthorized }, nil},
		{"any error", func(*fiber.Ctx) error { return errNotFound }, nil},
		{"an error after an answer", func(c *fiber.Ctx) error { _ = c.SendStatus(fiber.StatusAccepted); return errNotFound }, nil},
		{"a wrapped HTTP error", func(*fiber.Ctx) error { return fmt.Errorf("login: %w", fiber.ErrUnauthorized) }, nil},
		{"an error that the app's error handler maps", func(*fiber.Ctx) error { return errNotFound }, mapping},
	} {
		t.Run(test.name, func(t *testing.T) {
			limiter := core.Must(core.NewLimiter(core.NewMemoryStore(), core.Policy{Name: "test", Limits: []core.Limit{core.PerDay(5)}}))
			asked := 0
			app := fiber.New(fiber.Config{ErrorHandler: test.errors})
			app.Get("/", fiberlimit.New(limiter, fiberlimit.Global("all"),
				fiberlimit.WithRefund(func(_ *fiber.Ctx, status int) bool { asked = status; return false })), test.handler)
			res, err := app.Test(httptest.NewRequest(http.MethodGet, "/", nil))
			if err != nil {
				t.Fatal(err)
			}
			if res.StatusCode != asked {
				t.Errorf("the client got %d, but WithRefund was asked about %d", res.StatusCode, asked)
			}
		})
	}
}
