package fasthttplimit_test

import (
	"bufio"
	"context"
	"net"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/valyala/fasthttp"

	"github.com/tokenbucket-go/ratelimit/core"
	"github.com/tokenbucket-go/ratelimit/core/adapter/adaptertest"
	"github.com/tokenbucket-go/ratelimit/core/store"
	fasthttplimit "github.com/tokenbucket-go/ratelimit/examples/adapter"
	"github.com/tokenbucket-go/ratelimit/internal/bothstores"
)

func TestConformance(t *testing.T) {
	bothstores.Run(t, func(t *testing.T, store func(store.Option) core.Store) { adaptertest.Run(t, kit, store) })
}

func write(c *fasthttp.RequestCtx, status int, body string) {
	c.SetStatusCode(status)
	c.SetBodyString(body)
}

var kit = adaptertest.Kit[*fasthttp.RequestCtx, fasthttplimit.KeyFunc, fasthttplimit.Option, fasthttplimit.Rule, func(fasthttp.RequestHandler) fasthttp.RequestHandler]{
	New: fasthttplimit.New, NewTogether: fasthttplimit.NewTogether, PerIP: fasthttplimit.PerIP,
	ByIP: fasthttplimit.ByIP, ClientIP: fasthttplimit.ClientIP, ByHeader: fasthttplimit.ByHeader, ByCookie: fasthttplimit.ByCookie, ByQuery: fasthttplimit.ByQuery, ByParam: fasthttplimit.ByParam,
	ByContextValue: fasthttplimit.ByContextValue, ByMethod: fasthttplimit.ByMethod, ByPath: fasthttplimit.ByPath, ByRoute: fasthttplimit.ByRoute,
	Global: fasthttplimit.Global, Join: fasthttplimit.Join, FirstOf: fasthttplimit.FirstOf,
	WithCost: fasthttplimit.WithCost, CostByContentLength: fasthttplimit.CostByContentLength, CostByContentLengthOr: fasthttplimit.CostByContentLengthOr,
	WithUnits: fasthttplimit.WithUnits, WithFloor: fasthttplimit.WithFloor, WithSettle: fasthttplimit.WithSettle, WithPlan: fasthttplimit.WithPlan, WithLimits: fasthttplimit.WithLimits, WithSkip: fasthttplimit.WithSkip, WithRefund: fasthttplimit.WithRefund,
	OnDenied: func(denied func(core.Result) (int, string)) fasthttplimit.Option {
		return fasthttplimit.OnDenied(func(c *fasthttp.RequestCtx, res core.Result) { answer(c)(denied(res)) })
	},
	OnError: func(failed func(error) (int, string)) fasthttplimit.Option {
		return fasthttplimit.OnError(func(c *fasthttp.RequestCtx, err error) { answer(c)(failed(err)) })
	},
	Allow: func(limiter *core.Limiter, key func(*fasthttp.RequestCtx) string, then func(core.Result)) func(fasthttp.RequestHandler) fasthttp.RequestHandler {
		return func(next fasthttp.RequestHandler) fasthttp.RequestHandler {
			return func(c *fasthttp.RequestCtx) {
				if res, ok := fasthttplimit.Allow(c, limiter, key(c)); ok {
					then(res)
					next(c)
				}
			}
		}
	},
	Header:      func(c *fasthttp.RequestCtx, name string) string { return string(c.Request.Header.Peek(name)) },
	Cookie:      func(c *fasthttp.RequestCtx, name string) string { return string(c.Request.Header.Cookie(name)) },
	Query:       func(c *fasthttp.RequestCtx, name string) string { return string(c.QueryArgs().Peek(name)) },
	Serve:       serve,
	ProblemBody: true, RouteKnownInUse: true,
}

// answer returns a function that writes an answer, if status is not 0.
func answer(c *fasthttp.RequestCtx) func(status int, body string) {
	return func(status int, body string) {
		if status != 0 {
			write(c, status, body)
		}
	}
}

// serve has a router in front: what stands in Use knows the route.
func serve(l net.Listener, app adaptertest.App[func(fasthttp.RequestHandler) fasthttp.RequestHandler]) error {
	var routes []route
	for _, r := range app.Routes {
		routes = append(routes, route{r.Method, r.Pattern, limited(r.Use, func(c *fasthttp.RequestCtx) {
			res, ok := fasthttplimit.FromContext(c)
			reply := r.Handle(c.UserValue(fasthttplimit.ContextKey).(context.Context), res, ok, fasthttplimit.AllFromContext(c))
			switch {
			case reply.AsError:
				c.Error("", reply.Status)
			case reply.Hijack != nil:
				c.SetStatusCode(reply.Status)
				c.Hijack(reply.Hijack)
			case reply.Stream != nil:
				c.SetStatusCode(reply.Status)
				c.SetBodyStreamWriter(func(w *bufio.Writer) { reply.Stream(w, w.Flush) })
			default:
				write(c, reply.Status, reply.Body)
			}
		})})
	}
	found := limited(app.Use, func(c *fasthttp.RequestCtx) { c.UserValue(handlerKey{}).(fasthttp.RequestHandler)(c) })
	server := fasthttp.Server{StreamRequestBody: app.StreamBodies, Handler: func(c *fasthttp.RequestCtx) {
		defer func() {
			if recover() != nil {
				c.Error("", http.StatusInternalServerError)
			}
		}()
		for key, value := range app.Values {
			c.SetUserValue(key, value)
		}
		c.SetUserValue(fasthttplimit.ContextKey, app.Context(context.Background()))
		c.SetUserValue(handlerKey{}, find(routes, c))
		found(c)
	}}
	return server.Serve(l)
}

func limited(by []func(fasthttp.RequestHandler) fasthttp.RequestHandler, h fasthttp.RequestHandler) fasthttp.RequestHandler {
	for _, m := range slices.Backward(by) {
		h = m(h)
	}
	return h
}

type handlerKey struct{}

type route struct {
	method, pattern string
	handler         fasthttp.RequestHandler
}

// find leaves with the request the pattern that its path has and what stands in the pattern's braces.
func find(routes []route, c *fasthttp.RequestCtx) fasthttp.RequestHandler {
	path := strings.Split(string(c.Path()), "/")
	for _, r := range routes {
		pattern := strings.Split(r.pattern, "/")
		match := r.method == string(c.Method()) && len(path) == len(pattern)
		for i := 0; match && i < len(pattern); i++ {
			if name, ok := strings.CutPrefix(pattern[i], "{"); ok {
				c.SetUserValue(strings.TrimSuffix(name, "}"), path[i])
				continue
			}
			match = path[i] == pattern[i]
		}
		if match {
			c.SetUserValue(fasthttplimit.RouteKey, r.pattern)
			return r.handler
		}
	}
	return func(c *fasthttp.RequestCtx) { c.Error("", http.StatusNotFound) }
}
