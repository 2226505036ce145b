package ginlimit_test

import (
	"errors"
	"io"
	"net"
	"net/http"
	"testing"
	"time"

	"github.com/gin-gonic/gin"

	"github.com/tokenbucket-go/ratelimit/core"
	"github.com/tokenbucket-go/ratelimit/core/adapter/adaptertest"
	"github.com/tokenbucket-go/ratelimit/core/redisstore"
	"github.com/tokenbucket-go/ratelimit/core/store"
	"github.com/tokenbucket-go/ratelimit/ginlimit"
	"github.com/tokenbucket-go/ratelimit/internal/redistest"
)

func TestConformance(t *testing.T) {
	gin.SetMode(gin.ReleaseMode)
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

var kit = adaptertest.Kit[ginlimit.KeyFunc, ginlimit.Option]{
	ByIP: ginlimit.ByIP, ByHeader: ginlimit.ByHeader, ByCookie: ginlimit.ByCookie, ByQuery: ginlimit.ByQuery,
	ByParam: ginlimit.ByParam, ByContextValue: ginlimit.ByContextValue, ByMethod: ginlimit.ByMethod,
	ByPath: ginlimit.ByPath, ByRoute: ginlimit.ByRoute, Global: ginlimit.Global, Join: ginlimit.Join,
	FirstOf: ginlimit.FirstOf,
	Custom: func(key func(adaptertest.Header) (string, error)) ginlimit.KeyFunc {
		return func(c *gin.Context) (string, error) { return key(c.GetHeader) }
	},
	ReadHeader: func(name string) ginlimit.KeyFunc {
		return func(c *gin.Context) (string, error) { return c.GetHeader(name), nil }
	},
	ReadCookie: func(name string) ginlimit.KeyFunc {
		return func(c *gin.Context) (string, error) {
			value, _ := c.Cookie(name)
			return value, nil
		}
	},
	ReadQuery: func(name string) ginlimit.KeyFunc {
		return func(c *gin.Context) (string, error) { return c.Query(name), nil }
	},
	WithCost: func(cost func(adaptertest.Header) (int64, error)) ginlimit.Option {
		return ginlimit.WithCost(func(c *gin.Context) (int64, error) { return cost(c.GetHeader) })
	},
	CostByContentLength: func(bytesPerToken int64) ginlimit.Option {
		return ginlimit.WithCost(ginlimit.CostByContentLength(bytesPerToken))
	},
	CostByContentLengthOr: func(bytesPerToken, unknown int64) ginlimit.Option {
		return ginlimit.WithCost(ginlimit.CostByContentLengthOr(bytesPerToken, unknown))
	},
	WithUnits: func(units func(adaptertest.Header) (core.Units, error)) ginlimit.Option {
		return ginlimit.WithUnits(func(c *gin.Context) (core.Units, error) { return units(c.GetHeader) })
	},
	WithSettle: func(settle func(adaptertest.Header, int) core.Units) ginlimit.Option {
		return ginlimit.WithSettle(func(c *gin.Context, status int) core.Units { return settle(c.GetHeader, status) })
	},
	WithLimits: func(limits func(adaptertest.Header) ([]core.Limit, error)) ginlimit.Option {
		return ginlimit.WithLimits(func(c *gin.Context) ([]core.Limit, error) { return limits(c.GetHeader) })
	},
	WithSkip: func(skip func(adaptertest.Header) bool) ginlimit.Option {
		return ginlimit.WithSkip(func(c *gin.Context) bool { return skip(c.GetHeader) })
	},
	WithRefund: func(refund func(adaptertest.Header, int) bool) ginlimit.Option {
		return ginlimit.WithRefund(func(c *gin.Context, status int) bool { return refund(c.GetHeader, status) })
	},
	OnDenied: func(denied func(core.Result) (int, string)) ginlimit.Option {
		return ginlimit.OnDenied(func(c *gin.Context, res core.Result) {
			status, body := denied(res)
			if status == 0 {
				return
			}
			c.String(status, "%s", body)
		})
	},
	OnError: func(failed func(error) (int, string)) ginlimit.Option {
		return ginlimit.OnError(func(c *gin.Context, err error) {
			status, body := failed(err)
			if status == 0 {
				return
			}
			c.String(status, "%s", body)
		})
	},
	Serve:           serve,
	ProblemBody:     true,
	RouteKnownInUse: true,
	ParamKnownInUse: true,
	Streams:         true,
	ContextEnds:     true,
}

func serve(l net.Listener, app adaptertest.App[ginlimit.KeyFunc, ginlimit.Option]) error {
	r := gin.New()
	r.Use(gin.RecoveryWithWriter(io.Discard))
	r.Use(func(c *gin.Context) {
		if app.Value != nil {
			c.Set(adaptertest.ValueKey.(string), app.Value)
		}
		c.Request = c.Request.WithContext(app.Context(c.Request.Context()))
	})
	r.Use(limiters(app.Use)...)
	for _, route := range app.Routes {
		r.Handle(route.Method, adaptertest.Colons(route.Pattern), append(limiters(route.Use), func(c *gin.Context) {
			reply := route.Handle(c.Request.Context())
			if !reply.Send(c.Writer) {
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
	return http.Serve(l, r)
}

func limiters(described []adaptertest.Limiter[ginlimit.KeyFunc, ginlimit.Option]) (chain []gin.HandlerFunc) {
	for _, m := range described {
		if m.PerIP != nil {
			chain = append(chain, ginlimit.PerIP(m.PerIP...))
			continue
		}
		if m.Together == nil {
			chain = append(chain, ginlimit.New(m.Limiter, m.Key, m.Options...))
			continue
		}
		var rules []ginlimit.Rule
		for _, r := range m.Together {
			rules = append(rules, ginlimit.Rule(r))
		}
		chain = append(chain, ginlimit.NewTogether(rules, m.Options...))
	}
	return chain
}
