package echolimit_test

import (
	"errors"
	"fmt"
	"net"
	"net/http"
	"testing"
	"time"

	"github.com/labstack/echo/v5"

	"github.com/tokenbucket-go/ratelimit/core"
	"github.com/tokenbucket-go/ratelimit/core/adapter/adaptertest"
	"github.com/tokenbucket-go/ratelimit/core/redisstore"
	"github.com/tokenbucket-go/ratelimit/core/store"
	"github.com/tokenbucket-go/ratelimit/echolimit/v5"
	"github.com/tokenbucket-go/ratelimit/internal/redistest"
)

func TestConformance(t *testing.T) {
	t.Run("MemoryStore", func(t *testing.T) {
		adaptertest.Run(t, kit, func(clock store.ClockOption) core.Store { return core.NewMemoryStore(clock) })
	})
	t.Run("RedisStore", func(t *testing.T) {
		client := redistest.Client(t)
		adaptertest.Run(t, kit, func(clock store.ClockOption) core.Store {
			return redisstore.New(client, redisstore.WithPrefix(redistest.Prefix()), redisstore.WithTimeout(10*time.Second), clock)
		})
	})
}

var kit = adaptertest.Kit[echolimit.KeyFunc, echolimit.Option]{
	ByIP: echolimit.ByIP, ByHeader: echolimit.ByHeader, ByCookie: echolimit.ByCookie, ByQuery: echolimit.ByQuery,
	ByParam: echolimit.ByParam, ByContextValue: echolimit.ByContextValue, ByMethod: echolimit.ByMethod,
	ByPath: echolimit.ByPath, ByRoute: echolimit.ByRoute, Global: echolimit.Global, Join: echolimit.Join,
	FirstOf: echolimit.FirstOf,
	Custom: func(key func(adaptertest.Header) (string, error)) echolimit.KeyFunc {
		return func(c *echo.Context) (string, error) { return key(c.Request().Header.Get) }
	},
	ReadHeader: func(name string) echolimit.KeyFunc {
		return func(c *echo.Context) (string, error) { return c.Request().Header.Get(name), nil }
	},
	ReadCookie: func(name string) echolimit.KeyFunc {
		return func(c *echo.Context) (string, error) {
			if cookie, err := c.Cookie(name); err == nil {
				return cookie.Value, nil
			}
			return "", nil
		}
	},
	ReadQuery: func(name string) echolimit.KeyFunc {
		return func(c *echo.Context) (string, error) { return c.QueryParam(name), nil }
	},
	Error: func(status int) error { return echo.NewHTTPError(status, "") },
	WithCost: func(cost func(adaptertest.Header) (int64, error)) echolimit.Option {
		return echolimit.WithCost(func(c *echo.Context) (int64, error) { return cost(c.Request().Header.Get) })
	},
	CostByContentLength: func(bytesPerToken int64) echolimit.Option {
		return echolimit.WithCost(echolimit.CostByContentLength(bytesPerToken))
	},
	CostByContentLengthOr: func(bytesPerToken, unknown int64) echolimit.Option {
		return echolimit.WithCost(echolimit.CostByContentLengthOr(bytesPerToken, unknown))
	},
	WithUnits: func(units func(adaptertest.Header) (core.Units, error)) echolimit.Option {
		return echolimit.WithUnits(func(c *echo.Context) (core.Units, error) { return units(c.Request().Header.Get) })
	},
	WithSettle: func(settle func(adaptertest.Header, int) core.Units) echolimit.Option {
		return echolimit.WithSettle(func(c *echo.Context, status int) core.Units { return settle(c.Request().Header.Get, status) })
	},
	WithLimits: func(limits func(adaptertest.Header) ([]core.Limit, error)) echolimit.Option {
		return echolimit.WithLimits(func(c *echo.Context) ([]core.Limit, error) { return limits(c.Request().Header.Get) })
	},
	WithSkip: func(skip func(adaptertest.Header) bool) echolimit.Option {
		return echolimit.WithSkip(func(c *echo.Context) bool { return skip(c.Request().Header.Get) })
	},
	WithRefund: func(refund func(adaptertest.Header, int) bool) echolimit.Option {
		return echolimit.WithRefund(func(c *echo.Context, status int) bool { return refund(c.Request().Header.Get, status) })
	},
	OnDenied: func(denied func(core.Result) (int, string)) echolimit.Option {
		return echolimit.OnDenied(func(c *echo.Context, res core.Result) error {
			status, body := denied(res)
			if status == 0 {
				return nil
			}
			return c.String(status, body)
		})
	},
	OnError: func(failed func(error) (int, string)) echolimit.Option {
		return echolimit.OnError(func(c *echo.Context, err error) error {
			status, body := failed(err)
			if status == 0 {
				return nil
			}
			return c.String(status, body)
		})
	},
	Serve:           serve,
	RouteKnownInUse: true,
	ParamKnownInUse: true,
	Streams:         true,
	ContextEnds:     true,
}

func serve(l net.Listener, app adaptertest.App[echolimit.KeyFunc, echolimit.Option]) error {
	e := echo.New()
	e.HTTPErrorHandler = func(c *echo.Context, err error) {
		if he := (*echo.HTTPError)(nil); errors.As(err, &he) {
			c.Response().Header().Set(adaptertest.ErrorHeader, fmt.Sprint(he.Code))
		}
		echo.DefaultHTTPErrorHandler(false)(c, err)
	}
	e.Use(func(next echo.HandlerFunc) echo.HandlerFunc {
		return func(c *echo.Context) (err error) {
			defer func() {
				if recover() != nil {
					err = echo.ErrInternalServerError
				}
			}()
			c.Set(adaptertest.ValueKey.(string), app.Value)
			c.SetRequest(c.Request().WithContext(app.Context(c.Request().Context())))
			return next(c)
		}
	})
	e.Use(limiters(app.Use)...)
	for _, route := range app.Routes {
		e.Add(route.Method, adaptertest.Colons(route.Pattern), func(c *echo.Context) error {
			reply := route.Handle(c.Request().Context())
			if !reply.Send(c.Response()) {
				return nil
			}
			if reply.AsError {
				return echo.NewHTTPError(reply.Status, "")
			}
			c.Response().Header().Set(adaptertest.AllHeader, adaptertest.All(echolimit.AllFromContext(c)))
			return c.String(reply.Status, adaptertest.Body(echolimit.FromContext(c)))
		}, limiters(route.Use)...)
	}
	return http.Serve(l, e)
}

func limiters(described []adaptertest.Limiter[echolimit.KeyFunc, echolimit.Option]) (chain []echo.MiddlewareFunc) {
	for _, m := range described {
		if m.PerIP != nil {
			chain = append(chain, echolimit.PerIP(m.PerIP...))
			continue
		}
		if m.Together == nil {
			chain = append(chain, echolimit.New(m.Limiter, m.Key, m.Options...))
			continue
		}
		var rules []echolimit.Rule
		for _, r := range m.Together {
			rules = append(rules, echolimit.Rule(r))
		}
		chain = append(chain, echolimit.NewTogether(rules, m.Options...))
	}
	return chain
}
