package peers

import (
	"net/http"
	"time"

	"github.com/labstack/echo/v5"
	"github.com/labstack/echo/v5/middleware"

	"github.com/tokenbucket-go/ratelimit/core"
	echolimit "github.com/tokenbucket-go/ratelimit/echolimit/v5"
)

// EchoOwn is the name of echo's own limiter among the middlewares.
const EchoOwn = "echo's own (two fields)"

// Echo is echo v5. Its own limiter sends two header fields.
func Echo(l Limit) Framework {
	app := func(use ...echo.MiddlewareFunc) http.Handler {
		e := echo.New()
		e.Use(use...)
		e.GET("/items/:id", func(c *echo.Context) error { return c.String(http.StatusOK, "ok") })
		return e
	}
	own := middleware.RateLimiter(middleware.NewRateLimiterMemoryStoreWithConfig(middleware.RateLimiterMemoryStoreConfig{
		Rate: float64(time.Second) / float64(l.perToken()), Burst: l.Burst, ExpiresIn: time.Hour,
	}))
	ours := func(style core.HeaderStyle) echo.MiddlewareFunc {
		return echolimit.New(newLimiter(l, style), echolimit.ByIP())
	}
	return Framework{"echo v5", []Middleware{
		{Without, "", serve(app(), "")},
		{Library, legacyHeader, serve(app(ours(core.HeadersDefault)), legacyHeader)},
		{LegacyFields, legacyHeader, serve(app(ours(core.HeadersLegacy)), legacyHeader)},
		{EchoOwn, legacyHeader, serve(app(own), legacyHeader)},
	}}
}
