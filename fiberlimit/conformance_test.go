package fiberlimit_test

import (
	"bufio"
	"errors"
	"net"
	"testing"

	"github.com/gofiber/fiber/v2"
	recovery "github.com/gofiber/fiber/v2/middleware/recover"

	"github.com/tokenbucket-go/ratelimit/core"
	"github.com/tokenbucket-go/ratelimit/core/adapter/adaptertest"
	"github.com/tokenbucket-go/ratelimit/core/store"
	"github.com/tokenbucket-go/ratelimit/fiberlimit"
	"github.com/tokenbucket-go/ratelimit/internal/bothstores"
)

func TestConformance(t *testing.T) {
	bothstores.Run(t, func(t *testing.T, store func(store.Option) core.Store) { adaptertest.Run(t, kit, store) })
}

var kit = adaptertest.Kit[*fiber.Ctx, fiberlimit.KeyFunc, fiberlimit.Option, fiberlimit.Rule, fiber.Handler]{
	New: fiberlimit.New, NewTogether: fiberlimit.NewTogether, PerIP: fiberlimit.PerIP,
	ByIP: fiberlimit.ByIP, ClientIP: fiberlimit.ClientIP, ByHeader: fiberlimit.ByHeader, ByCookie: fiberlimit.ByCookie, ByQuery: fiberlimit.ByQuery, ByParam: fiberlimit.ByParam,
	ByContextValue: fiberlimit.ByContextValue, ByMethod: fiberlimit.ByMethod, ByPath: fiberlimit.ByPath, ByRoute: fiberlimit.ByRoute,
	Global: fiberlimit.Global, Join: fiberlimit.Join, FirstOf: fiberlimit.FirstOf,
	WithCost: fiberlimit.WithCost, CostByContentLength: fiberlimit.CostByContentLength, CostByContentLengthOr: fiberlimit.CostByContentLengthOr,
	WithUnits: fiberlimit.WithUnits, WithFloor: fiberlimit.WithFloor, WithSettle: fiberlimit.WithSettle, WithPlan: fiberlimit.WithPlan, WithLimits: fiberlimit.WithLimits, WithSkip: fiberlimit.WithSkip, WithRefund: fiberlimit.WithRefund,
	OnDenied: func(denied func(core.Result) (int, string)) fiberlimit.Option {
		return fiberlimit.OnDenied(func(c *fiber.Ctx, res core.Result) error { return answer(c)(denied(res)) })
	},
	OnError: func(failed func(error) (int, string)) fiberlimit.Option {
		return fiberlimit.OnError(func(c *fiber.Ctx, err error) error { return answer(c)(failed(err)) })
	},
	Allow: func(limiter *core.Limiter, key func(*fiber.Ctx) string, then func(core.Result)) fiber.Handler {
		return func(c *fiber.Ctx) error {
			res, err := fiberlimit.Allow(c, limiter, key(c))
			if err != nil {
				return err
			}
			then(res)
			return c.Next()
		}
	},
	// The request's own strings are views of a buffer that the next request
	// overwrites.
	Header:      func(c *fiber.Ctx, name string) string { return c.Get(name) },
	Cookie:      func(c *fiber.Ctx, name string) string { return c.Cookies(name) },
	Query:       func(c *fiber.Ctx, name string) string { return c.Query(name) },
	Error:       func(status int) error { return fiber.NewError(status) },
	Serve:       serve,
	RouteAdvice: "app.Get(path, limiter, handler)", RoutesAgain: true,
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
				app.Failed(fe.Code)
			}
			if errors.Is(err, adaptertest.ErrNotFound) {
				return c.SendStatus(fiber.StatusNotFound)
			}
			return fiber.DefaultErrorHandler(c, err)
		},
	})
	f.Use(recovery.New())
	f.Use(func(c *fiber.Ctx) error {
		for key, value := range app.Values {
			c.Locals(key, value)
		}
		c.SetUserContext(app.Context(c.UserContext()))
		return c.Next()
	})
	for _, m := range app.Use {
		f.Use(m)
	}
	for _, route := range app.Routes {
		add(f, route.Method, route.Colons, append(route.Use, func(c *fiber.Ctx) error {
			res, ok := fiberlimit.FromContext(c)
			reply := route.Handle(c.UserContext(), res, ok, fiberlimit.AllFromContext(c))
			switch {
			case reply.Err != nil:
				return reply.Err
			case reply.AsError:
				return fiber.NewError(reply.Status)
			case reply.Again != "":
				c.Path(reply.Again)
				return c.RestartRouting()
			case reply.Hijack != nil:
				c.Status(reply.Status).Context().Hijack(reply.Hijack)
				return nil
			case reply.Stream != nil:
				return stream(c, reply.Status, func(w *bufio.Writer) { reply.Stream(w, w.Flush) })
			}
			return c.Status(reply.Status).SendString(reply.Body)
		}))
	}
	return listen(f, l)
}
