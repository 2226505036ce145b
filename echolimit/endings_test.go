package echolimit_test

import (
	"net/http"
	"testing"
	"testing/synctest"
	"time"

	"github.com/labstack/echo/v4"
	"github.com/labstack/echo/v4/middleware"

	"github.com/tokenbucket-go/ratelimit/echolimit"
	"github.com/tokenbucket-go/ratelimit/internal/endings"
)

func TestMiddlewareThatAnswers(t *testing.T) {
	endings.Run(t, "echo v4", synctest.Test, func(t *testing.T, c endings.Case) int {
		limit := []echo.MiddlewareFunc{
			echolimit.New(c.Slots, echolimit.Global(endings.Key)),
			echolimit.New(c.Calls, echolimit.Global(endings.Key), echolimit.WithRefund(func(_ echo.Context, status int) bool { return c.See(status) })),
		}
		var use echo.MiddlewareFunc
		var handler echo.HandlerFunc
		switch c.Middleware {
		case "Timeout":
			//lint:ignore SA1019 apps use it
			use = middleware.TimeoutWithConfig(middleware.TimeoutConfig{Timeout: time.Millisecond})
			handler = func(c echo.Context) error {
				<-c.Request().Context().Done()
				return c.Request().Context().Err()
			}
		case "Gzip":
			use = middleware.Gzip()
			handler = func(c echo.Context) error { return c.Blob(http.StatusCreated, "text/plain", make([]byte, 4096)) }
		case "Recover":
			use = middleware.RecoverWithConfig(middleware.RecoverConfig{DisablePrintStack: true})
			handler = func(echo.Context) error { panic("a handler's mistake") }
		case "BodyLimit":
			use = middleware.BodyLimit("8B")
			handler = func(c echo.Context) error { return c.NoContent(http.StatusOK) }
		default:
			t.Fatalf("the test does not know %q", c.Middleware)
		}
		e := echo.New()
		e.Logger.SetLevel(7) // no panic is logged
		e.Use(endings.Order(c, use, limit...)...)
		e.POST("/", handler)
		return endings.Ask(e)
	})
}
