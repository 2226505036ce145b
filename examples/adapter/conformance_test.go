package fasthttplimit_test

import (
	"bufio"
	"context"
	"net"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/valyala/fasthttp"

	"github.com/tokenbucket-go/ratelimit/core"
	"github.com/tokenbucket-go/ratelimit/core/adapter/adaptertest"
	"github.com/tokenbucket-go/ratelimit/core/redisstore"
	"github.com/tokenbucket-go/ratelimit/core/store"
	fasthttplimit "github.com/tokenbucket-go/ratelimit/examples/adapter"
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

// header copies, as a user of fasthttp does.
func header(c *fasthttp.RequestCtx) adaptertest.Header {
	return func(name string) string { return string(c.Request.Header.Peek(name)) }
}

func write(c *fasthttp.RequestCtx, status int, body string) {
	c.SetStatusCode(status)
	c.SetBodyString(body)
}

var kit = adaptertest.Kit[fasthttplimit.KeyFunc, fasthttplimit.Option]{
	ByIP: fasthttplimit.ByIP, ByHeader: fasthttplimit.ByHeader, ByCookie: fasthttplimit.ByCookie, ByQuery: fasthttplimit.ByQuery,
	ByParam: fasthttplimit.ByParam, ByContextValue: fasthttplimit.ByContextValue, ByMethod: fasthttplimit.ByMethod,
	ByPath: fasthttplimit.ByPath, ByRoute: fasthttplimit.ByRoute, Global: fasthttplimit.Global, Join: fasthttplimit.Join,
	FirstOf: fasthttplimit.FirstOf,
	Custom: func(key func(adaptertest.Header) (string, error)) fasthttplimit.KeyFunc {
		return func(c *fasthttp.RequestCtx) (string, error) { return key(header(c)) }
	},
	ReadHeader: func(name string) fasthttplimit.KeyFunc {
		return func(c *fasthttp.RequestCtx) (string, error) { return string(c.Request.Header.Peek(name)), nil }
	},
	ReadCookie: func(name string) fasthttplimit.KeyFunc {
		return func(c *fasthttp.RequestCtx) (string, error) { return string(c.Request.Header.Cookie(name)), nil }
	},
	ReadQuery: func(name string) fasthttplimit.KeyFunc {
		return func(c *fasthttp.RequestCtx) (string, error) { return string(c.QueryArgs().Peek(name)), nil }
	},
	WithCost: func(cost func(adaptertest.Header) (int64, error)) fasthttplimit.Option {
		return fasthttplimit.WithCost(func(c *fasthttp.RequestCtx) (int64, error) { return cost(header(c)) })
	},
	CostByContentLength: func(bytesPerToken int64) fasthttplimit.Option {
		return fasthttplimit.WithCost(fasthttplimit.CostByContentLength(bytesPerToken))
	},
	CostByContentLengthOr: func(bytesPerToken, unknown int64) fasthttplimit.Option {
		return fasthttplimit.WithCost(fasthttplimit.CostByContentLengthOr(bytesPerToken, unknown))
	},
	WithUnits: func(units func(adaptertest.Header) (core.Units, error)) fasthttplimit.Option {
		return fasthttplimit.WithUnits(func(c *fasthttp.RequestCtx) (core.Units, error) { return units(header(c)) })
	},
	WithSettle: func(settle func(adaptertest.Header, int) core.Units) fasthttplimit.Option {
		return fasthttplimit.WithSettle(func(c *fasthttp.RequestCtx, status int) core.Units { return settle(header(c), status) })
	},
	WithLimits: func(limits func(adaptertest.Header) ([]core.Limit, error)) fasthttplimit.Option {
		return fasthttplimit.WithLimits(func(c *fasthttp.RequestCtx) ([]core.Limit, error) { return limits(header(c)) })
	},
	WithSkip: func(skip func(adaptertest.Header) bool) fasthttplimit.Option {
		return fasthttplimit.WithSkip(func(c *fasthttp.RequestCtx) bool { return skip(header(c)) })
	},
	WithRefund: func(refund func(adaptertest.Header, int) bool) fasthttplimit.Option {
		return fasthttplimit.WithRefund(func(c *fasthttp.RequestCtx, status int) bool { return refund(header(c), status) })
	},
	OnDenied: func(denied func(core.Result) (int, string)) fasthttplimit.Option {
		return fasthttplimit.OnDenied(func(c *fasthttp.RequestCtx, res core.Result) {
			status, body := denied(res)
			if status == 0 {
				return
			}
			write(c, status, body)
		})
	},
	OnError: func(failed func(error) (int, string)) fasthttplimit.Option {
		return fasthttplimit.OnError(func(c *fasthttp.RequestCtx, err error) {
			status, body := failed(err)
			if status == 0 {
				return
			}
			write(c, status, body)
		})
	},
	Serve:           serve,
	ProblemBody:     true,
	ClosesAtOnce:    true,
	RouteKnownInUse: true,
	ParamKnownInUse: true,
}

type described = []adaptertest.Limiter[fasthttplimit.KeyFunc, fasthttplimit.Option]

// serve has a router in front: what stands in Use knows the route.
func serve(l net.Listener, app adaptertest.App[fasthttplimit.KeyFunc, fasthttplimit.Option]) error {
	var routes []route
	for _, r := range app.Routes {
		routes = append(routes, route{r.Method, r.Pattern, limited(r.Use, func(c *fasthttp.RequestCtx) {
			reply := r.Handle(c.UserValue(fasthttplimit.ContextKey).(context.Context))
			if reply.AsError {
				c.Error("", reply.Status)
				return
			}
			if reply.Stream != nil {
				c.SetStatusCode(reply.Status)
				c.SetBodyStreamWriter(func(w *bufio.Writer) { reply.Stream(w, w.Flush) })
				return
			}
			c.Response.Header.Set(adaptertest.AllHeader, adaptertest.All(fasthttplimit.AllFromContext(c)))
			write(c, reply.Status, adaptertest.Body(fasthttplimit.FromContext(c)))
		})})
	}
	found := limited(app.Use, func(c *fasthttp.RequestCtx) { c.UserValue(handlerKey{}).(fasthttp.RequestHandler)(c) })
	server := fasthttp.Server{StreamRequestBody: app.StreamBodies, Handler: func(c *fasthttp.RequestCtx) {
		defer func() {
			if recover() != nil {
				c.Error("", http.StatusInternalServerError)
			}
		}()
		c.SetUserValue(adaptertest.ValueKey, app.Value)
		c.SetUserValue(fasthttplimit.ContextKey, app.Context(context.Background()))
		c.SetUserValue(handlerKey{}, find(routes, c))
		found(c)
	}}
	return server.Serve(l)
}

func limited(by described, h fasthttp.RequestHandler) fasthttp.RequestHandler {
	for _, m := range slices.Backward(by) {
		if m.PerIP != nil {
			h = fasthttplimit.PerIP(m.PerIP...)(h)
			continue
		}
		if m.Together == nil {
			h = fasthttplimit.New(m.Limiter, m.Key, m.Options...)(h)
			continue
		}
		var rules []fasthttplimit.Rule
		for _, r := range m.Together {
			rules = append(rules, fasthttplimit.Rule(r))
		}
		h = fasthttplimit.NewTogether(rules, m.Options...)(h)
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
