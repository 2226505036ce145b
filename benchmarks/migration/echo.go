package migration

import (
	"github.com/labstack/echo/v4"
	"github.com/labstack/echo/v4/middleware"

	"github.com/tokenbucket-go/ratelimit/core"
	"github.com/tokenbucket-go/ratelimit/echolimit"
)

// EchoBefore limits each client to 10 requests a second and bursts of 30,
// except on /healthz.
func EchoBefore(e *echo.Echo) {
	e.Use(middleware.RateLimiterWithConfig(middleware.RateLimiterConfig{
		Skipper: func(c echo.Context) bool { return c.Path() == "/healthz" },
		Store: middleware.NewRateLimiterMemoryStoreWithConfig(
			middleware.RateLimiterMemoryStoreConfig{Rate: 10, Burst: 30}),
	}))
}

// EchoAfter limits each client to 10 requests a second and bursts of 30, except
// on /healthz.
func EchoAfter(e *echo.Echo) {
	limiter := core.Must(core.NewLimiter(core.NewMemoryStore(), core.Policy{
		Name: "api", Limits: []core.Limit{core.PerSecond(10).WithBurst(30)},
	}))
	e.Use(echolimit.New(limiter, echolimit.ByIP(),
		echolimit.WithSkip(func(c echo.Context) bool { return c.Path() == "/healthz" })))
}
