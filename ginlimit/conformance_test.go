package ginlimit_test

import (
	"errors"
	"io"
	"net"
	"net/http"
	"testing"

	"github.com/gin-gonic/gin"

	"github.com/tokenbucket-go/ratelimit/core"
	"github.com/tokenbucket-go/ratelimit/core/adapter/adaptertest"
	"github.com/tokenbucket-go/ratelimit/core/store"
	"github.com/tokenbucket-go/ratelimit/ginlimit"
	"github.com/tokenbucket-go/ratelimit/internal/bothstores"
)

func TestConformance(t *testing.T) {
	gin.SetMode(gin.ReleaseMode)
	bothstores.Run(t, func(t *testing.T, store func(store.ClockOption) core.Store) { adaptertest.Run(t, kit, store) })
}

var kit = adaptertest.Kit[*gin.Context, ginlimit.KeyFunc, ginlimit.Option, ginlimit.Rule, gin.HandlerFunc]{
	New: ginlimit.New, NewTogether: ginlimit.NewTogether, PerIP: ginlimit.PerIP,
	ByIP: ginlimit.ByIP, ClientIP: ginlimit.ClientIP, ByHeader: ginlimit.ByHeader, ByCookie: ginlimit.ByCookie, ByQuery: ginlimit.ByQuery, ByParam: ginlimit.ByParam,
	ByContextValue: ginlimit.ByContextValue, ByMethod: ginlimit.ByMethod, ByPath: ginlimit.ByPath, ByRoute: ginlimit.ByRoute,
	Global: ginlimit.Global, Join: ginlimit.Join, FirstOf: ginlimit.FirstOf,
	WithCost: ginlimit.WithCost, CostByContentLength: ginlimit.CostByContentLength, CostByContentLengthOr: ginlimit.CostByContentLengthOr,
	WithUnits: ginlimit.WithUnits, WithSettle: ginlimit.WithSettle, WithPlan: ginlimit.WithPlan, WithLimits: ginlimit.WithLimits, WithSkip: ginlimit.WithSkip, WithRefund: ginlimit.WithRefund,
	OnDenied: func(denied func(core.Result) (int, string)) ginlimit.Option {
		return ginlimit.OnDenied(func(c *gin.Context, res core.Result) { answer(c)(denied(res)) })
	},
	OnError: func(failed func(error) (int, string)) ginlimit.Option {
		return ginlimit.OnError(func(c *gin.Context, err error) { answer(c)(failed(err)) })
	},
	Allow: func(limiter *core.Limiter, keys func(*gin.Context) []string, then func(core.Result)) gin.HandlerFunc {
		return func(c *gin.Context) { // the next handler follows unless Allow has aborted the request
			for _, key := range keys(c) {
				res, ok := ginlimit.Allow(c, limiter, key)
				if !ok {
					return
				}
				then(res)
			}
		}
	},
	ReadBody:    func(c *gin.Context, n int64) { _, _ = io.CopyN(io.Discard, c.Request.Body, n) },
	Header:      (*gin.Context).GetHeader,
	Cookie:      func(c *gin.Context, name string) string { value, _ := c.Cookie(name); return value },
	Query:       (*gin.Context).Query,
	Serve:       serve,
	ProblemBody: true, RouteKnownInUse: true, ParamKnownInUse: true, Streams: true, ContextEnds: true,
}

// answer returns a function that writes an answer, if status is not 0.
func answer(c *gin.Context) func(status int, body string) {
	return func(status int, body string) {
		if status != 0 {
			c.String(status, "%s", body)
		}
	}
}

func serve(l net.Listener, app adaptertest.App[gin.HandlerFunc]) error {
	r := gin.New()
	r.Use(gin.RecoveryWithWriter(io.Discard))
	r.Use(func(c *gin.Context) {
		if app.Value != nil {
			c.Set(adaptertest.ValueKey.(string), app.Value)
		}
		c.Request = c.Request.WithContext(app.Context(c.Request.Context()))
	})
	r.Use(app.Use...)
	for _, route := range app.Routes {
		r.Handle(route.Method, adaptertest.Colons(route.Pattern), append(route.Use, func(c *gin.Context) {
			reply := route.Handle(c.Request.Context())
			reply.Decide(ginlimit.FromContext(c))
			if !reply.Send(c.Writer, c.Request) {
				return
			}
			if reply.AsError {
				_ = c.AbortWithError(reply.Status, errors.New("handler"))
				return
			}
			c.Header(adaptertest.AllHeader, adaptertest.All(ginlimit.AllFromContext(c)))
			c.String(reply.Status, "%s", adaptertest.Body(ginlimit.FromContext(c)))
		})...)
	}
	return http.Serve(l, app.Timed(r))
}
