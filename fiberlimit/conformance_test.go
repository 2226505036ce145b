package fiberlimit_test

import (
	"bufio"
	"errors"
	"fmt"
	"net"
	"testing"
	"time"

	"github.com/gofiber/fiber/v2"
	recovery "github.com/gofiber/fiber/v2/middleware/recover"

	"github.com/tokenbucket-go/ratelimit/core"
	"github.com/tokenbucket-go/ratelimit/core/adapter/adaptertest"
	"github.com/tokenbucket-go/ratelimit/core/redisstore"
	"github.com/tokenbucket-go/ratelimit/core/store"
	"github.com/tokenbucket-go/ratelimit/fiberlimit"
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

// requestHeader returns the request's own strings. They are views of a buffer that the next request overwrites.
func requestHeader(c *fiber.Ctx) adaptertest.Header {
	return func(name string) string { return c.Get(name) }
}

var kit = adaptertest.Kit[fiberlimit.KeyFunc, fiberlimit.Option]{
	ByIP: fiberlimit.ByIP, ByHeader: fiberlimit.ByHeader, ByCookie: fiberlimit.ByCookie, ByQuery: fiberlimit.ByQuery,
	ByParam: fiberlimit.ByParam, ByContextValue: fiberlimit.ByContextValue, ByMethod: fiberlimit.ByMethod,
	ByPath: fiberlimit.ByPath, ByRoute: fiberlimit.ByRoute, Global: fiberlimit.Global, Join: fiberlimit.Join,
	FirstOf: fiberlimit.FirstOf,
	Custom: func(key func(adaptertest.Header) (string, error)) fiberlimit.KeyFunc {
		return func(c *fiber.Ctx) (string, error) { return key(requestHeader(c)) }
	},
	ReadHeader: func(name string) fiberlimit.KeyFunc {
		return func(c *fiber.Ctx) (string, error) { return c.Get(name), nil }
	},
	ReadCookie: func(name string) fiberlimit.KeyFunc {
		return func(c *fiber.Ctx) (string, error) { return c.Cookies(name), nil }
	},
	ReadQuery: func(name string) fiberlimit.KeyFunc {
		return func(c *fiber.Ctx) (string, error) { return c.Query(name), nil }
	},
	Error:       func(status int) error { return fiber.NewError(status) },
	RouteAdvice: "app.Get(path, limiter, handler)",
	WithCost: func(cost func(adaptertest.Header) (int64, error)) fiberlimit.Option {
		return fiberlimit.WithCost(func(c *fiber.Ctx) (int64, error) { return cost(requestHeader(c)) })
	},
	CostByContentLength: func(bytesPerToken int64) fiberlimit.Option {
		return fiberlimit.WithCost(fiberlimit.CostByContentLength(bytesPerToken))
	},
	CostByContentLengthOr: func(bytesPerToken, unknown int64) fiberlimit.Option {
		return fiberlimit.WithCost(fiberlimit.CostByContentLengthOr(bytesPerToken, unknown))
	},
	WithUnits: func(units func(adaptertest.Header) (core.Units, error)) fiberlimit.Option {
		return fiberlimit.WithUnits(func(c *fiber.Ctx) (core.Units, error) { return units(requestHeader(c)) })
	},
	WithSettle: func(settle func(adaptertest.Header, int) core.Units) fiberlimit.Option {
		return fiberlimit.WithSettle(func(c *fiber.Ctx, status int) core.Units { return settle(requestHeader(c), status) })
	},
	WithLimits: func(limits func(adaptertest.Header) ([]core.Limit, error)) fiberlimit.Option {
		return fiberlimit.WithLimits(func(c *fiber.Ctx) ([]core.Limit, error) { return limits(requestHeader(c)) })
	},
	WithSkip: func(skip func(adaptertest.Header) bool) fiberlimit.Option {
		return fiberlimit.WithSkip(func(c *fiber.Ctx) bool { return skip(requestHeader(c)) })
	},
	WithRefund: func(refund func(adaptertest.Header, int) bool) fiberlimit.Option {
		return fiberlimit.WithRefund(func(c *fiber.Ctx, status int) bool { return refund(requestHeader(c), status) })
	},
	OnDenied: func(denied func(core.Result) (int, string)) fiberlimit.Option {
		return fiberlimit.OnDenied(func(c *fiber.Ctx, res core.Result) error {
			status, body := denied(res)
			if status == 0 {
				return nil
			}
			return c.Status(status).SendString(body)
		})
	},
	OnError: func(failed func(error) (int, string)) fiberlimit.Option {
		return fiberlimit.OnError(func(c *fiber.Ctx, err error) error {
			status, body := failed(err)
			if status == 0 {
				return nil
			}
			return c.Status(status).SendString(body)
		})
	},
	Serve: serve,
}

func serve(l net.Listener, app adaptertest.App[fiberlimit.KeyFunc, fiberlimit.Option]) error {
	f := fiber.New(fiber.Config{
		DisableStartupMessage: true,
		StreamRequestBody:     app.StreamBodies,
		ErrorHandler: func(c *fiber.Ctx, err error) error {
			if fe := (*fiber.Error)(nil); errors.As(err, &fe) {
				c.Set(adaptertest.ErrorHeader, fmt.Sprint(fe.Code))
			}
			return fiber.DefaultErrorHandler(c, err)
		},
	})
	f.Use(recovery.New())
	f.Use(func(c *fiber.Ctx) error {
		c.Locals(adaptertest.ValueKey, app.Value)
		c.SetUserContext(app.Context(c.UserContext()))
		return c.Next()
	})
	for _, m := range limiters(app.Use) {
		f.Use(m)
	}
	for _, route := range app.Routes {
		f.Add(route.Method, adaptertest.Colons(route.Pattern), append(limiters(route.Use), func(c *fiber.Ctx) error {
			reply := route.Handle(c.UserContext())
			if reply.AsError {
				return fiber.NewError(reply.Status)
			}
			if reply.Stream != nil {
				c.Status(reply.Status).Context().SetBodyStreamWriter(func(w *bufio.Writer) { reply.Stream(w, w.Flush) })
				return nil
			}
			c.Set(adaptertest.AllHeader, adaptertest.All(fiberlimit.AllFromContext(c)))
			return c.Status(reply.Status).SendString(adaptertest.Body(fiberlimit.FromContext(c)))
		})...)
	}
	return f.Listener(l)
}

func limiters(described []adaptertest.Limiter[fiberlimit.KeyFunc, fiberlimit.Option]) (chain []fiber.Handler) {
	for _, m := range described {
		if m.PerIP != nil {
			chain = append(chain, fiberlimit.PerIP(m.PerIP...))
			continue
		}
		if m.Together == nil {
			chain = append(chain, fiberlimit.New(m.Limiter, m.Key, m.Options...))
			continue
		}
		var rules []fiberlimit.Rule
		for _, r := range m.Together {
			rules = append(rules, fiberlimit.Rule(r))
		}
		chain = append(chain, fiberlimit.NewTogether(rules, m.Options...))
	}
	return chain
}
