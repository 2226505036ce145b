package fiberlimit_test

import (
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/gofiber/fiber/v2"
	"github.com/valyala/fasthttp"

	"github.com/tokenbucket-go/ratelimit/core"
	"github.com/tokenbucket-go/ratelimit/fiberlimit"
)

var errNotFound = errors.New("no such row")

// WithRefund gets the status that the client gets, also that of an error that only the app's error handler understands.
func TestRefundGetsTheStatusOfTheResponse(t *testing.T) {
	mapping := func(c *fiber.Ctx, err error) error {
		if errors.Is(err, errNotFound) {
			return c.SendStatus(fiber.StatusNotFound)
		}
		return fiber.DefaultErrorHandler(c, err)
	}
	for _, test := range []struct {
		name    string
		handler fiber.Handler
	}{
		{"an answer", func(c *fiber.Ctx) error { return c.SendStatus(fiber.StatusAccepted) }},
		{"an HTTP error", func(*fiber.Ctx) error { return fiber.ErrUnauthorized }},
		{"any error", func(*fiber.Ctx) error { return errNotFound }},
		{"an error after an answer", func(c *fiber.Ctx) error { _ = c.SendStatus(fiber.StatusAccepted); return errNotFound }},
		{"a wrapped HTTP error", func(*fiber.Ctx) error { return fmt.Errorf("login: %w", fiber.ErrUnauthorized) }},
	} {
		t.Run(test.name, func(t *testing.T) {
			limiter := core.Must(core.NewLimiter(core.NewMemoryStore(), core.Policy{Name: "test", Limits: []core.Limit{core.PerDay(5)}}))
			reported := 0
			app := fiber.New()
			app.Get("/", fiberlimit.New(limiter, fiberlimit.Global("all"),
				fiberlimit.WithRefund(func(_ *fiber.Ctx, status int) bool { reported = status; return false })), test.handler)
			res, err := app.Test(httptest.NewRequest(http.MethodGet, "/", nil), -1)
			if err != nil {
				t.Fatal(err)
			}
			if res.StatusCode != reported {
				t.Errorf("the client got %d, but WithRefund was called with %d", res.StatusCode, reported)
			}
		})
	}
	t.Run("an error that the app's error handler maps", func(t *testing.T) {
		limiter := core.Must(core.NewLimiter(core.NewMemoryStore(), core.Policy{Name: "test", Limits: []core.Limit{core.PerDay(5)}}))
		reported, outer := 0, error(nil)
		app := fiber.New(fiber.Config{ErrorHandler: mapping})
		app.Use(func(c *fiber.Ctx) error { outer = c.Next(); return outer })
		app.Get("/", fiberlimit.New(limiter, fiberlimit.Global("all"),
			fiberlimit.WithRefund(func(_ *fiber.Ctx, status int) bool { reported = status; return false })),
			func(*fiber.Ctx) error { return errNotFound })
		res, err := app.Test(httptest.NewRequest(http.MethodGet, "/", nil), -1)
		if err != nil {
			t.Fatal(err)
		}
		if res.StatusCode != http.StatusNotFound || reported != http.StatusNotFound || !errors.Is(outer, errNotFound) {
			t.Errorf("the client got %d, WithRefund was called with %d, middleware in front got %v; want 404, 404 and the handler's error", res.StatusCode, reported, outer)
		}
	})
	t.Run("an error without a server, as on AWS Lambda, counts as 500", func(t *testing.T) {
		limiter := core.Must(core.NewLimiter(core.NewMemoryStore(), core.Policy{Name: "test", Limits: []core.Limit{core.PerDay(5)}}))
		reported := 0
		app := fiber.New(fiber.Config{ErrorHandler: mapping})
		app.Get("/", fiberlimit.New(limiter, fiberlimit.Global("all"),
			fiberlimit.WithRefund(func(_ *fiber.Ctx, status int) bool { reported = status; return false })),
			func(*fiber.Ctx) error { return errNotFound })
		var request fasthttp.Request
		request.SetRequestURI("/")
		var c fasthttp.RequestCtx
		c.Init(&request, nil, nil)
		app.Handler()(&c)
		if reported != http.StatusInternalServerError {
			t.Errorf("WithRefund was called with %d, want 500: nothing tells when the response is sent", reported)
		}
	})
}
