package peers

import (
	"net/http"
	"time"

	"github.com/labstack/echo/v4"
	"github.com/labstack/echo/v4/middleware"
	"golang.org/x/time/rate"

	"github.com/tokenbucket-go/ratelimit/core"
	"github.com/tokenbucket-go/ratelimit/echolimit"
)

// EchoOwn is the name of echo's own limiter among the middlewares.
const EchoOwn = "echo's own (no fields)"

// Echo is echo. Its own limiter sends no header fields, so this library is measured without as well.
func Echo(l Limit) Framework {
	app := func(use ...echo.MiddlewareFunc) http.Handler {
		e := echo.New()
		e.Use(use...)
		e.GET("/items/:id", func(c echo.Context) error { return c.String(http.StatusOK, "ok") })
		return e
	}
	own := middleware.RateLimiter(middleware.NewRateLimiterMemoryStoreWithConfig(middleware.RateLimiterMemoryStoreConfig{
		Rate: rate.Every(l.perToken()), Burst: l.Burst, ExpiresIn: time.Hour,
	}))
	ours := func(style core.HeaderStyle) echo.MiddlewareFunc {
		return echolimit.New(newLimiter(l, style), echolimit.ByIP())
	}
	return Framework{"echo", []Middleware{
		{Without, "", serve(app(), "")},
		{Library, legacyHeader, serve(app(ours(core.HeadersDefault)), legacyHeader)},
		{NoFields, "", serve(app(ours(core.HeadersNone)), "")},
		{EchoOwn, "", serve(app(own), "")},
	}}
}
