package echolimit_test

import (
	"errors"
	"net"
	"net/http"
	"testing"

	"github.com/labstack/echo/v4"

	"github.com/tokenbucket-go/ratelimit/core"
	"github.com/tokenbucket-go/ratelimit/core/adapter/adaptertest"
	"github.com/tokenbucket-go/ratelimit/core/store"
	"github.com/tokenbucket-go/ratelimit/echolimit"
	"github.com/tokenbucket-go/ratelimit/internal/bothstores"
)

func TestConformance(t *testing.T) {
	bothstores.Run(t, func(t *testing.T, store func(store.Option) core.Store) { adaptertest.Run(t, kit, store) })
}

var kit = adaptertest.Kit[echo.Context, echolimit.KeyFunc, echolimit.Option, echolimit.Rule, echo.MiddlewareFunc]{
	New: echolimit.New, NewTogether: echolimit.NewTogether, PerIP: echolimit.PerIP,
	ByIP: echolimit.ByIP, ClientIP: echolimit.ClientIP, ByHeader: echolimit.ByHeader, ByCookie: echolimit.ByCookie, ByQuery: echolimit.ByQuery, ByParam: echolimit.ByParam,
	ByContextValue: echolimit.ByContextValue, ByMethod: echolimit.ByMethod, ByPath: echolimit.ByPath, ByRoute: echolimit.ByRoute,
	Global: echolimit.Global, Join: echolimit.Join, FirstOf: echolimit.FirstOf,
	WithCost: echolimit.WithCost, CostByContentLength: echolimit.CostByContentLength, CostByContentLengthOr: echolimit.CostByContentLengthOr,
	WithUnits: echolimit.WithUnits, WithFloor: echolimit.WithFloor, WithSettle: echolimit.WithSettle, WithPlan: echolimit.WithPlan, WithLimits: echolimit.WithLimits, WithSkip: echolimit.WithSkip, WithRefund: echolimit.WithRefund,
	OnDenied: func(denied func(core.Result) (int, string)) echolimit.Option {
		return echolimit.OnDenied(func(c echo.Context, res core.Result) error { return answer(c)(denied(res)) })
	},
	OnError: func(failed func(error) (int, string)) echolimit.Option {
		return echolimit.OnError(func(c echo.Context, err error) error { return answer(c)(failed(err)) })
	},
	Allow: func(limiter *core.Limiter, key func(echo.Context) string, then func(core.Result)) echo.MiddlewareFunc {
		return func(next echo.HandlerFunc) echo.HandlerFunc {
			return func(c echo.Context) error {
				res, err := echolimit.Allow(c, limiter, key(c))
				if err != nil {
					return err
				}
				then(res)
				return next(c)
			}
		}
	},
	Header:          func(c echo.Context, name string) string { return c.Request().Header.Get(name) },
	Cookie:          cookie,
	Query:           echo.Context.QueryParam,
	Error:           func(status int) error { return echo.NewHTTPError(status, "") },
	Serve:           serve,
	RouteKnownInUse: true, NetHTTP: true,
}

// answer returns a function that writes an answer, if status is not 0.
func answer(c echo.Context) func(status int, body string) error {
	return func(status int, body string) error {
		if status == 0 {
			return nil
		}
		return c.String(status, body)
	}
}

func cookie(c echo.Context, name string) string {
	if cookie, err := c.Cookie(name); err == nil {
		return cookie.Value
	}
	return ""
}

func serve(l net.Listener, app adaptertest.App[echo.MiddlewareFunc]) error {
	e := echo.New()
	e.HTTPErrorHandler = func(err error, c echo.Context) {
		if he := (*echo.HTTPError)(nil); errors.As(err, &he) {
			app.Failed(he.Code)
		}
		if errors.Is(err, adaptertest.ErrNotFound) {
			_ = c.NoContent(http.StatusNotFound)
			return
		}
		e.DefaultHTTPErrorHandler(err, c)
	}
	e.Use(func(next echo.HandlerFunc) echo.HandlerFunc {
		return func(c echo.Context) (err error) {
			defer func() {
				if recover() != nil {
					err = echo.ErrInternalServerError
				}
			}()
			for key, value := range app.Values {
				c.Set(key, value)
			}
			c.SetRequest(c.Request().WithContext(app.Context(c.Request().Context())))
			return next(c)
		}
	})
	e.Use(app.Use...)
	for _, route := range app.Routes {
		e.Add(route.Method, route.Colons, func(c echo.Context) error {
			res, ok := echolimit.FromContext(c)
			reply := route.Handle(c.Request().Context(), res, ok, echolimit.AllFromContext(c))
			switch {
			case reply.Err != nil:
				return reply.Err
			case reply.HTTP != nil:
				reply.HTTP(c.Response(), c.Request())
			case !reply.AsError:
				return c.String(reply.Status, reply.Body)
			}
			if reply.AsError {
				return echo.NewHTTPError(reply.Status, "")
			}
			return nil
		}, route.Use...)
	}
	return http.Serve(l, e)
}
