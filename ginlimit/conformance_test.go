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

func init() { gin.SetMode(gin.ReleaseMode) } // it prints nothing

func TestConformance(t *testing.T) {
	bothstores.Run(t, func(t *testing.T, store func(store.Option) core.Store) { adaptertest.Run(t, kit, store) })
}

var kit = adaptertest.Kit[*gin.Context, ginlimit.KeyFunc, ginlimit.Option, ginlimit.Rule, gin.HandlerFunc]{
	New: ginlimit.New, NewTogether: ginlimit.NewTogether, PerIP: ginlimit.PerIP,
	ByIP: ginlimit.ByIP, ClientIP: ginlimit.ClientIP, ByHeader: ginlimit.ByHeader, ByCookie: ginlimit.ByCookie, ByQuery: ginlimit.ByQuery, ByParam: ginlimit.ByParam,
	ByContextValue: ginlimit.ByContextValue, ByMethod: ginlimit.ByMethod, ByPath: ginlimit.ByPath, ByRoute: ginlimit.ByRoute,
	Global: ginlimit.Global, Join: ginlimit.Join, FirstOf: ginlimit.FirstOf,
	WithCost: ginlimit.WithCost, CostByContentLength: ginlimit.CostByContentLength, CostByContentLengthOr: ginlimit.CostByContentLengthOr,
	WithUnits: ginlimit.WithUnits, WithFloor: ginlimit.WithFloor, WithSettle: ginlimit.WithSettle, WithPlan: ginlimit.WithPlan, WithLimits: ginlimit.WithLimits, WithSkip: ginlimit.WithSkip, WithRefund: ginlimit.WithRefund,
	OnDenied: func(denied func(core.Result) (int, string)) ginlimit.Option {
		return ginlimit.OnDenied(func(c *gin.Context, res core.Result) { answer(c)(denied(res)) })
	},
	OnError: func(failed func(error) (int, string)) ginlimit.Option {
		return ginlimit.OnError(func(c *gin.Context, err error) { answer(c)(failed(err)) })
	},
	Allow: func(limiter *core.Limiter, key func(*gin.Context) string, then func(core.Result)) gin.HandlerFunc {
		return func(c *gin.Context) { // the next handler follows unless Allow has aborted the request
			if res, ok := ginlimit.Allow(c, limiter, key(c)); ok {
				then(res)
			}
		}
	},
	Header:      (*gin.Context).GetHeader,
	Cookie:      func(c *gin.Context, name string) string { value, _ := c.Cookie(name); return value },
	Query:       (*gin.Context).Query,
	Serve:       serve,
	ProblemBody: true, RouteKnownInUse: true, RoutesAgain: true, NetHTTP: true,
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
		for key, value := range app.Values {
			c.Set(key, value)
		}
		c.Request = c.Request.WithContext(app.Context(c.Request.Context()))
	})
	r.Use(app.Use...)
	for _, route := range app.Routes {
		r.Handle(route.Method, route.Colons, append(route.Use, func(c *gin.Context) {
			res, ok := ginlimit.FromContext(c)
			reply := route.Handle(c.Request.Context(), res, ok, ginlimit.AllFromContext(c))
			switch {
			case reply.HTTP != nil:
				reply.HTTP(c.Writer, c.Request)
			case reply.Again != "":
				c.Request.URL.Path = reply.Again
				r.HandleContext(c)
			case reply.AsError:
				_ = c.AbortWithError(reply.Status, errors.New("handler"))
			default:
				c.String(reply.Status, "%s", reply.Body)
			}
		})...)
	}
	return http.Serve(l, r)
}
