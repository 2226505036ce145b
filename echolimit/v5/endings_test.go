package echolimit_test

import (
	"net/http"
	"testing"
	"testing/synctest"

	"github.com/labstack/echo/v5"
	"github.com/labstack/echo/v5/middleware"

	"github.com/tokenbucket-go/ratelimit/echolimit/v5"
	"github.com/tokenbucket-go/ratelimit/internal/endings"
)

func TestMiddlewareThatAnswers(t *testing.T) {
	endings.Run(t, "echo v5", synctest.Test, func(t *testing.T, c endings.Case) int {
		limit := []echo.MiddlewareFunc{
			echolimit.New(c.Slots, echolimit.Global(endings.Key)),
			echolimit.New(c.Calls, echolimit.Global(endings.Key), echolimit.WithRefund(func(_ *echo.Context, status int) bool { return c.See(status) })),
		}
		var use echo.MiddlewareFunc
		var handler echo.HandlerFunc
		switch c.Middleware {
		case "Recover":
			use = middleware.RecoverWithConfig(middleware.RecoverConfig{DisablePrintStack: true})
			handler = func(*echo.Context) error { panic("a handler's mistake") }
		case "BodyLimit":
			use = middleware.BodyLimit(8)
			handler = func(c *echo.Context) error { return c.NoContent(http.StatusOK) }
		default:
			t.Fatalf("the test does not know %q", c.Middleware)
		}
		e := echo.New()
		e.Use(endings.Order(c, use, limit...)...)
		e.POST("/", handler)
		return endings.Ask(e)
	})
}
