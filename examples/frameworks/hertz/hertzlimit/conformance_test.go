package hertzlimit_test

import (
	"context"
	"flag"
	"net"
	"strings"
	"testing"

	"github.com/cloudwego/hertz/pkg/app"
	"github.com/cloudwego/hertz/pkg/app/server"
	"github.com/cloudwego/hertz/pkg/network"
	"github.com/cloudwego/hertz/pkg/network/standard"
	"github.com/cloudwego/hertz/pkg/protocol/http1/resp"

	"github.com/tokenbucket-go/ratelimit/core"
	"github.com/tokenbucket-go/ratelimit/core/adapter"
	"github.com/tokenbucket-go/ratelimit/core/adapter/adaptertest"
	"github.com/tokenbucket-go/ratelimit/core/middleware"
	"github.com/tokenbucket-go/ratelimit/core/store"
	"github.com/tokenbucket-go/ratelimit/examples/frameworks/hertz/hertzlimit"
)

// TestMain skips rules that no middleware of hertz can keep.
func TestMain(m *testing.M) {
	flag.Parse()
	if flag.Lookup("test.skip").Value.String() == "" {
		_ = flag.Set("test.skip", strings.Join([]string{
			// It serves a path with a zero byte, and waits for more of an
			// invalid header field.
			"TestConformance/.*/a_connection_without_a_valid_request_takes_no_token",
			// It has read chunked bodies, so their length is known.
			"TestConformance/read/CostByContentLength",
		}, "|"))
	}
	m.Run()
}

func TestConformance(t *testing.T) {
	newStore := func(clock store.Option) core.Store { return core.NewMemoryStore(clock) }
	for name, streams := range map[string]bool{"read": false, "streamed": true} { // the bodies of requests
		kit.Serve = func(l net.Listener, app adaptertest.App[app.HandlerFunc]) error {
			app.StreamBodies = app.StreamBodies || streams
			return serve(l, app)
		}
		t.Run(name, func(t *testing.T) { adaptertest.Run(t, kit, newStore) })
	}
}

type (
	request = adapter.Request
	rule    = middleware.Rule[adapter.KeyFunc]
	option  func(*options)
	options struct {
		adapter.Options[request]
		denied func(core.Result) (status int, body string)
		failed func(error) (status int, body string)
	}
)

func configured(list []option) (o options) {
	for _, set := range list {
		set(&o)
	}
	return o
}

// refuse answers as the app says, and if it writes nothing by default.
func (o options) refuse(c *app.RequestContext, a adapter.Admission) {
	status, body := 0, ""
	switch {
	case a.Verdict == middleware.Denied && o.denied != nil:
		status, body = o.denied(a.Result())
	case a.Verdict == middleware.Failed && o.failed != nil:
		status, body = o.failed(a.Err)
	}
	if status == 0 {
		hertzlimit.Refuse(c, a)
		return
	}
	c.String(status, body)
}

var kit = adaptertest.Kit[request, adapter.KeyFunc, option, rule, app.HandlerFunc]{
	New: func(limiter *core.Limiter, key adapter.KeyFunc, list ...option) app.HandlerFunc {
		o := configured(list)
		return hertzlimit.Middleware(adapter.New(limiter, key, o.Options), o.refuse)
	},
	NewTogether: func(rules []rule, list ...option) app.HandlerFunc {
		o := configured(list)
		return hertzlimit.Middleware(adapter.NewTogether(rules, o.Options), o.refuse)
	},
	PerIP: func(limit core.Limit, trust ...core.IPOption) app.HandlerFunc {
		return hertzlimit.New(adapter.InProcess(limit, trust), adapter.ByIP(trust...), adapter.Options[request]{})
	},
	ByIP: adapter.ByIP, ByHeader: adapter.ByHeader, ByCookie: adapter.ByCookie, ByQuery: adapter.ByQuery, ByParam: adapter.ByParam,
	ByContextValue: adapter.ByContextValue, ByMethod: adapter.ByMethod, ByPath: adapter.ByPath, Global: adapter.Global,
	ByRoute: func() adapter.KeyFunc { return adapter.ByRoute("") },
	Join:    func(keys ...adapter.KeyFunc) adapter.KeyFunc { return middleware.Join[request](keys...) },
	FirstOf: func(keys ...adapter.KeyFunc) adapter.KeyFunc { return middleware.FirstOf[request](keys...) },
	ClientIP: func(trust ...core.IPOption) func(request) (string, error) {
		return adapter.ClientIP(trust...)
	},
	Allow: func(limiter *core.Limiter, key func(request) string, then func(core.Result)) app.HandlerFunc {
		return func(ctx context.Context, c *app.RequestContext) {
			user := key(hertzlimit.Request{RequestContext: c, Ctx: ctx})
			hertzlimit.Middleware(adapter.InHandler[request](limiter, user), hertzlimit.Refuse)(ctx, c)
			if res, _ := hertzlimit.FromContext(c); !c.IsAborted() {
				then(res)
			}
		}
	},
	WithCost:              func(f func(request) (int64, error)) option { return func(o *options) { o.Cost = f } },
	CostByContentLength:   func(n int64) func(request) (int64, error) { return adapter.CostByContentLength(n) },
	CostByContentLengthOr: func(n, unknown int64) func(request) (int64, error) { return adapter.CostByContentLengthOr(n, unknown) },
	WithUnits:             func(f func(request) (core.Units, error)) option { return func(o *options) { o.Units = f } },
	WithFloor:             func(f func(request) (core.Units, error)) option { return func(o *options) { o.Floor = f } },
	WithSettle:            func(f func(request, int) core.Units) option { return func(o *options) { o.Settle = f } },
	WithPlan:              func(f func(request) (string, error)) option { return func(o *options) { o.Plan = f } },
	WithLimits:            func(f func(request) ([]core.Limit, error)) option { return func(o *options) { o.Limits = f } },
	WithSkip:              func(f func(request) bool) option { return func(o *options) { o.Skip = f } },
	WithRefund:            func(f func(request, int) bool) option { return func(o *options) { o.Refund = f } },
	OnDenied:              func(f func(core.Result) (int, string)) option { return func(o *options) { o.denied = f } },
	OnError:               func(f func(error) (int, string)) option { return func(o *options) { o.failed = f } },
	Header: func(x request, name string) string {
		if values := x.Header(name); len(values) > 0 {
			return values[0]
		}
		return ""
	},
	Cookie: request.Cookie, Query: request.Query,
	ProblemBody: true, RouteKnownInUse: true,
}

func serve(l net.Listener, description adaptertest.App[app.HandlerFunc]) error {
	h := server.New(server.WithListener(l), server.WithTransport(standard.NewTransporter),
		server.WithStreamBody(description.StreamBodies), server.WithDisablePrintRoute(true))
	h.Use(func(ctx context.Context, c *app.RequestContext) {
		defer func() {
			if recover() != nil {
				c.AbortWithStatus(500)
			}
		}()
		for key, value := range description.Values {
			c.Set(key, value)
		}
		c.Next(description.Context(ctx))
	})
	h.Use(description.Use...)
	for _, route := range description.Routes {
		h.Handle(route.Method, route.Colons, append(route.Use, func(ctx context.Context, c *app.RequestContext) {
			res, ok := hertzlimit.FromContext(c)
			write(c, route.Handle(ctx, res, ok, middleware.AllFromContext(hertzlimit.Request{RequestContext: c, Ctx: ctx}.Decision())))
		})...)
	}
	return h.Run()
}

func write(c *app.RequestContext, reply adaptertest.Reply) {
	c.SetStatusCode(reply.Status)
	switch {
	case reply.Hijack != nil && !c.Request.ConnectionClose(): // hertz would take over that connection too
		c.Hijack(func(conn network.Conn) { reply.Hijack(conn) })
	case reply.Stream != nil:
		w := resp.NewChunkedBodyWriter(&c.Response, c.GetWriter())
		c.Response.HijackWriter(w)
		reply.Stream(w, w.Flush)
	default:
		c.Response.SetBodyString(reply.Body)
	}
}
