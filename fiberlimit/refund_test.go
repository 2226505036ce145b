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

// reporting returns an app whose route has a limiter, and the status that
// WithRefund got.
func reporting(config fiber.Config, front, handler fiber.Handler) (app *fiber.App, reported *int) {
	limiter := core.Must(core.NewLimiter(core.NewMemoryStore(), core.Policy{Name: "test", Limits: []core.Limit{core.PerDay(5)}}))
	app, reported = fiber.New(config), new(int)
	app.Use(front)
	app.Get("/", fiberlimit.New(limiter, fiberlimit.Global("all"),
		fiberlimit.WithRefund(func(_ *fiber.Ctx, status int) bool { *reported = status; return false })), handler)
	return app, reported
}

// mapping is an app's error handler that understands the app's own error.
func mapping(c *fiber.Ctx, err error) error {
	if errors.Is(err, errNotFound) {
		return c.SendStatus(fiber.StatusNotFound)
	}
	return fiber.DefaultErrorHandler(c, err)
}

// WithRefund gets the status that the client gets, also that of an error that
// only the app's error handler understands.
func TestRefundGetsTheStatusOfTheResponse(t *testing.T) {
	for _, test := range []struct {
		name    string
		handler fiber.Handler
		config  fiber.Config
		status  int
	}{
		{"any error", func(*fiber.Ctx) error { return errNotFound }, fiber.Config{}, http.StatusInternalServerError},
		{"an error after an answer", func(c *fiber.Ctx) error { _ = c.SendStatus(fiber.StatusAccepted); return errNotFound }, fiber.Config{}, http.StatusInternalServerError},
		{"a wrapped HTTP error", func(*fiber.Ctx) error { return fmt.Errorf("login: %w", fiber.ErrUnauthorized) }, fiber.Config{}, http.StatusUnauthorized},
		{"an error that the app's error handler maps", func(*fiber.Ctx) error { return errNotFound }, fiber.Config{ErrorHandler: mapping}, http.StatusNotFound},
	} {
		t.Run(test.name, func(t *testing.T) {
			var returned, outer error
			app, reported := reporting(test.config, func(c *fiber.Ctx) error { outer = c.Next(); return outer },
				func(c *fiber.Ctx) error { returned = test.handler(c); return returned })
			res, err := app.Test(httptest.NewRequest(http.MethodGet, "/", nil), -1)
			if err != nil {
				t.Fatal(err)
			}
			if res.StatusCode != test.status || *reported != test.status || !errors.Is(outer, returned) {
				t.Errorf("the client got %d, WithRefund was called with %d, middleware in front got %v; want %d twice and the handler's error, %v",
					res.StatusCode, *reported, outer, test.status, returned)
			}
		})
	}
	t.Run("an error without a server, as on AWS Lambda, counts as 500", func(t *testing.T) {
		app, reported := reporting(fiber.Config{ErrorHandler: mapping}, func(c *fiber.Ctx) error { return c.Next() }, func(*fiber.Ctx) error { return errNotFound })
		var request fasthttp.Request
		request.SetRequestURI("/")
		var c fasthttp.RequestCtx
		c.Init(&request, nil, nil)
		app.Handler()(&c)
		if *reported != http.StatusInternalServerError {
			t.Errorf("WithRefund was called with %d, want 500: nothing tells when the response is sent", *reported)
		}
	})
}
