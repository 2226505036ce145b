package migration

import (
	"time"

	"github.com/labstack/echo/v4"
	"github.com/labstack/echo/v4/middleware"
)

// EchoBefore limits each client to 10 requests a second and bursts of 30, except on /healthz.
func EchoBefore(e *echo.Echo) {
	e.IPExtractor = echo.ExtractIPDirect()
	e.Use(middleware.RateLimiterWithConfig(middleware.RateLimiterConfig{
		Skipper: func(c echo.Context) bool { return c.Path() == "/healthz" },
		Store: middleware.NewRateLimiterMemoryStoreWithConfig(middleware.RateLimiterMemoryStoreConfig{
			Rate: 10, Burst: 30, ExpiresIn: 3 * time.Minute,
		}),
	}))
}
