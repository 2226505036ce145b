package fiberlimit_test

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"net"
	"testing"

	"github.com/gofiber/fiber/v2"
	recovery "github.com/gofiber/fiber/v2/middleware/recover"
	"github.com/valyala/fasthttp"

	"github.com/tokenbucket-go/ratelimit/core"
	"github.com/tokenbucket-go/ratelimit/core/adapter/adaptertest"
	"github.com/tokenbucket-go/ratelimit/core/store"
	"github.com/tokenbucket-go/ratelimit/fiberlimit"
	"github.com/tokenbucket-go/ratelimit/internal/bothstores"
)

func TestConformance(t *testing.T) {
	bothstores.Run(t, func(t *testing.T, store func(store.ClockOption) core.Store) { adaptertest.Run(t, kit, store) })
}

var kit = adaptertest.Kit[*fiber.Ctx, fiberlimit.KeyFunc, fiberlimit.Option, fiberlimit.Rule, fiber.Handler]{
	New: fiberlimit.New, NewTogether: fiberlimit.NewTogether, PerIP: fiberlimit.PerIP,
	ByIP: fiberlimit.ByIP, ClientIP: fiberlimit.ClientIP, ByHeader: fiberlimit.ByHeader, ByCookie: fiberlimit.ByCookie, ByQuery: fiberlimit.ByQuery, ByParam: fiberlimit.ByParam,
	ByContextValue: fiberlimit.ByContextValue, ByMethod: fiberlimit.ByMethod, ByPath: fiberlimit.ByPath, ByRoute: fiberlimit.ByRoute,
	Global: fiberlimit.Global, Join: fiberlimit.Join, FirstOf: fiberlimit.FirstOf,
	WithCost: fiberlimit.WithCost, CostByContentLength: fiberlimit.CostByContentLength, CostByContentLengthOr: fiberlimit.CostByContentLengthOr,
	WithUnits: fiberlimit.WithUnits, WithSettle: fiberlimit.WithSettle, WithPlan: fiberlimit.WithPlan, WithLimits: fiberlimit.WithLimits, WithSkip: fiberlimit.WithSkip, WithRefund: fiberlimit.WithRefund,
	OnDenied: func(denied func(core.Result) (int, string)) fiberlimit.Option {
		return fiberlimit.OnDenied(func(c *fiber.Ctx, res core.Result) error { return answer(c)(denied(res)) })
	},
	OnError: func(failed func(error) (int, string)) fiberlimit.Option {
		return fiberlimit.OnError(func(c *fiber.Ctx, err error) error { return answer(c)(failed(err)) })
	},
	Allow: func(limiter *core.Limiter, keys func(*fiber.Ctx) []string, then func(core.Result)) fiber.Handler {
		return func(c *fiber.Ctx) error {
			for _, key := range keys(c) {
				res, err := fiberlimit.Allow(c, limiter, key)
				if err != nil {
					return err
				}
				then(res)
			}
			return c.Next()
		}
	},
	ReadBody: func(c *fiber.Ctx, n int64) {
		if c.Request().IsBodyStream() {
			_, _ = io.CopyN(io.Discard, c.Request().BodyStream(), n)
		}
	},
	// The request's own strings are views of a buffer that the next request
	// overwrites.
	Header:      func(c *fiber.Ctx, name string) string { return c.Get(name) },
	Cookie:      func(c *fiber.Ctx, name string) string { return c.Cookies(name) },
	Query:       func(c *fiber.Ctx, name string) string { return c.Query(name) },
	Error:       func(status int) error { return fiber.NewError(status) },
	Serve:       serve,
	RouteAdvice: "app.Get(path, limiter, handler)",
}

// answer returns a function that writes an answer, if status is not 0.
func answer(c *fiber.Ctx) func(status int, body string) error {
	return func(status int, body string) error {
		if status == 0 {
			return nil
		}
		return c.Status(status).SendString(body)
	}
}

func serve(l net.Listener, app adaptertest.App[fiber.Handler]) error {
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
	for _, m := range app.Use {
		f.Use(m)
	}
	for _, route := range app.Routes {
		add(f, route.Method, adaptertest.Colons(route.Pattern), append(route.Use, func(c *fiber.Ctx) error {
			reply := route.Handle(c.UserContext())
			reply.Decide(fiberlimit.FromContext(c))
			if reply.AsError {
				return fiber.NewError(reply.Status)
			}
			if reply.Hijack != nil {
				c.Status(reply.Status).Context().Hijack(reply.Hijack)
				return nil
			}
			if reply.Closed {
				c.Context().HijackSetNoResponse(true)
				c.Context().Hijack(func(net.Conn) {})
				return c.Context().Conn().Close()
			}
			if reply.Stream != nil {
				return stream(c, reply.Status, func(w *bufio.Writer) { reply.Stream(w, w.Flush) })
			}
			c.Set(adaptertest.AllHeader, adaptertest.All(fiberlimit.AllFromContext(c)))
			return c.Status(reply.Status).SendString(adaptertest.Body(fiberlimit.FromContext(c)))
		}))
	}
	if app.Timeout > 0 {
		return fasthttp.Serve(l, fasthttp.TimeoutHandler(f.Handler(), app.Timeout, ""))
	}
	return listen(f, l)
}
