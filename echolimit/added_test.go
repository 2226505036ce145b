package echolimit_test

import (
	"net/http"
	"testing"

	"github.com/labstack/echo/v4"

	"github.com/tokenbucket-go/ratelimit/core"
	"github.com/tokenbucket-go/ratelimit/echolimit"
	"github.com/tokenbucket-go/ratelimit/internal/limittest"
)

func TestMiddlewareAddsFewAllocations(t *testing.T) {
	serve := func(middleware echo.MiddlewareFunc) func() {
		e := echo.New()
		e.Use(middleware)
		e.GET("/", func(c echo.Context) error { return c.NoContent(http.StatusNoContent) })
		return limittest.Request(t, e)
	}
	limiter := limittest.Limiter(t, core.NewMemoryStore(), "api", core.PerMinute(1_000_000))
	limittest.CheckAdded(t,
		serve(func(next echo.HandlerFunc) echo.HandlerFunc {
			return func(c echo.Context) error { return next(c) }
		}),
		serve(func(next echo.HandlerFunc) echo.HandlerFunc {
			return func(c echo.Context) error {
				c.Set("key", t)
				return next(c)
			}
		}),
		serve(echolimit.New(limiter, echolimit.ByIP())))
}
