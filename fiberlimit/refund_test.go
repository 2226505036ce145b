package fiberlimit_test

import (
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/gofiber/fiber/v2"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"github.com/valyala/fasthttp"

	"github.com/tokenbucket-go/ratelimit/core"
	"github.com/tokenbucket-go/ratelimit/fiberlimit"
	"github.com/tokenbucket-go/ratelimit/internal/limittest"
)

var errNotFound = errors.New("no such row")

// reporting returns an app whose route has a limiter, and the status that
// WithRefund got.
func reporting(t *testing.T, config fiber.Config, front, handler fiber.Handler) (app *fiber.App, reported *int) {
	app, reported = fiber.New(config), new(int)
	app.Use(front)
	app.Get("/", fiberlimit.New(limittest.Limiter(t, core.NewMemoryStore(), "test", core.PerDay(5)), fiberlimit.Global("all"),
		fiberlimit.WithRefund(func(_ *fiber.Ctx, status int) bool { *reported = status; return false })), handler)
	return app, reported
}

// The suite has other errors. Middleware in front gets the handler's error.
func TestRefundGetsTheStatusOfAnError(t *testing.T) {
	for name, test := range map[string]struct {
		handler fiber.Handler
		status  int
	}{
		"after an answer":      {func(c *fiber.Ctx) error { _ = c.SendStatus(fiber.StatusAccepted); return errNotFound }, http.StatusInternalServerError},
		"a wrapped HTTP error": {func(*fiber.Ctx) error { return fmt.Errorf("login: %w", fiber.ErrUnauthorized) }, http.StatusUnauthorized},
	} {
		var returned, outer error
		app, reported := reporting(t, fiber.Config{}, func(c *fiber.Ctx) error { outer = c.Next(); return outer },
			func(c *fiber.Ctx) error { returned = test.handler(c); return returned })
		res, err := app.Test(httptest.NewRequest(http.MethodGet, "/", nil), -1)
		require.NoError(t, err, name)
		require.NoError(t, res.Body.Close())
		assert.Equal(t, []int{test.status, test.status}, []int{res.StatusCode, *reported}, name)
		assert.ErrorIs(t, outer, returned, name)
	}
}

// Without a server, as on AWS Lambda, nothing tells when the response is sent.
func TestAnErrorWithoutAServerCountsAs500(t *testing.T) {
	mapping := func(c *fiber.Ctx, _ error) error { return c.SendStatus(fiber.StatusNotFound) }
	app, reported := reporting(t, fiber.Config{ErrorHandler: mapping}, func(c *fiber.Ctx) error { return c.Next() }, func(*fiber.Ctx) error { return errNotFound })
	var request fasthttp.Request
	request.SetRequestURI("/")
	var c fasthttp.RequestCtx
	c.Init(&request, nil, nil)
	app.Handler()(&c)
	assert.Equal(t, http.StatusInternalServerError, *reported)
}
