package peers

import (
	"fmt"
	"net"
	"net/http"

	"github.com/gofiber/fiber/v3"
	fiberown "github.com/gofiber/fiber/v3/middleware/limiter"
	"github.com/valyala/fasthttp"

	"github.com/tokenbucket-go/ratelimit/core"
	fiberlimit "github.com/tokenbucket-go/ratelimit/fiberlimit/v3"
)

// FiberOwn is the name of fiber's own limiter among the middlewares.
const FiberOwn = "fiber's own"

// Fiber is fiber v3.
func Fiber(l Limit) Framework {
	app := func(use ...fiber.Handler) fasthttp.RequestHandler {
		a := fiber.New()
		for _, m := range use {
			a.Use(m)
		}
		a.Get("/items/:id", func(c fiber.Ctx) error { return c.SendString("ok") })
		return a.Handler()
	}
	own := fiberown.New(fiberown.Config{Max: l.Burst, Expiration: window})
	ours := func(style core.HeaderStyle) fiber.Handler {
		return fiberlimit.New(newLimiter(l, style), fiberlimit.ByIP())
	}
	return Framework{"fiber v3", []Middleware{
		{Without, "", serveFast(app(), "")},
		{Library, legacyHeader, serveFast(app(ours(core.HeadersDefault)), legacyHeader)},
		{LegacyFields, legacyHeader, serveFast(app(ours(core.HeadersLegacy)), legacyHeader)},
		{FiberOwn, legacyHeader, serveFast(app(own), legacyHeader)},
	}}
}

// serveFast is serve for fasthttp, which reuses the whole context as its server does.
func serveFast(h fasthttp.RequestHandler, sends string) func() func(int) error {
	return func() func(int) error {
		addresses := make([]net.Addr, clients)
		for i := range addresses {
			a, err := net.ResolveTCPAddr("tcp", address(i))
			if err != nil {
				panic(err)
			}
			addresses[i] = a
		}
		var request fasthttp.Request
		request.SetRequestURI("http://localhost" + path)
		request.Header.SetUserAgent("benchmark")
		c := &fasthttp.RequestCtx{}
		c.Init(&request, addresses[0], nil)
		return func(i int) error {
			c.ResetUserValues()
			c.Response.Reset()
			c.SetRemoteAddr(addresses[i%clients])
			h(c)
			if c.Response.StatusCode() != http.StatusOK || sends != "" && len(c.Response.Header.Peek(sends)) == 0 {
				return fmt.Errorf("answered %d with header %s", c.Response.StatusCode(), &c.Response.Header)
			}
			return nil
		}
	}
}
