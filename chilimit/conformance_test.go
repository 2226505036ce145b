package chilimit_test

import (
	"context"
	"io"
	"net"
	"net/http"
	"testing"
	"time"

	"github.com/go-chi/chi/v5"

	"github.com/tokenbucket-go/ratelimit/chilimit"
	"github.com/tokenbucket-go/ratelimit/core"
	"github.com/tokenbucket-go/ratelimit/core/adapter/adaptertest"
	"github.com/tokenbucket-go/ratelimit/core/redisstore"
	"github.com/tokenbucket-go/ratelimit/core/store"
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

var kit = adaptertest.Kit[chilimit.KeyFunc, chilimit.Option]{
	ByIP: chilimit.ByIP, ByHeader: chilimit.ByHeader, ByCookie: chilimit.ByCookie, ByQuery: chilimit.ByQuery,
	ByParam: chilimit.ByParam, ByContextValue: chilimit.ByContextValue, ByMethod: chilimit.ByMethod,
	ByPath: chilimit.ByPath, ByRoute: chilimit.ByRoute, Global: chilimit.Global, Join: chilimit.Join,
	FirstOf: chilimit.FirstOf,
	Custom: func(key func(adaptertest.Header) (string, error)) chilimit.KeyFunc {
		return func(r *http.Request) (string, error) { return key(r.Header.Get) }
	},
	ReadHeader: func(name string) chilimit.KeyFunc {
		return func(r *http.Request) (string, error) { return r.Header.Get(name), nil }
	},
	ReadCookie: func(name string) chilimit.KeyFunc {
		return func(r *http.Request) (string, error) {
			if c, err := r.Cookie(name); err == nil {
				return c.Value, nil
			}
			return "", nil
		}
	},
	ReadQuery: func(name string) chilimit.KeyFunc {
		return func(r *http.Request) (string, error) { return r.URL.Query().Get(name), nil }
	},
	WithCost: func(cost func(adaptertest.Header) (int64, error)) chilimit.Option {
		return chilimit.WithCost(func(r *http.Request) (int64, error) { return cost(r.Header.Get) })
	},
	CostByContentLength: func(bytesPerToken int64) chilimit.Option {
		return chilimit.WithCost(chilimit.CostByContentLength(bytesPerToken))
	},
	CostByContentLengthOr: func(bytesPerToken, unknown int64) chilimit.Option {
		return chilimit.WithCost(chilimit.CostByContentLengthOr(bytesPerToken, unknown))
	},
	WithUnits: func(units func(adaptertest.Header) (core.Units, error)) chilimit.Option {
		return chilimit.WithUnits(func(r *http.Request) (core.Units, error) { return units(r.Header.Get) })
	},
	WithSettle: func(settle func(adaptertest.Header, int) core.Units) chilimit.Option {
		return chilimit.WithSettle(func(r *http.Request, status int) core.Units { return settle(r.Header.Get, status) })
	},
	WithLimits: func(limits func(adaptertest.Header) ([]core.Limit, error)) chilimit.Option {
		return chilimit.WithLimits(func(r *http.Request) ([]core.Limit, error) { return limits(r.Header.Get) })
	},
	WithSkip: func(skip func(adaptertest.Header) bool) chilimit.Option {
		return chilimit.WithSkip(func(r *http.Request) bool { return skip(r.Header.Get) })
	},
	WithRefund: func(refund func(adaptertest.Header, int) bool) chilimit.Option {
		return chilimit.WithRefund(func(r *http.Request, status int) bool { return refund(r.Header.Get, status) })
	},
	OnDenied: func(denied func(core.Result) (int, string)) chilimit.Option {
		return chilimit.OnDenied(func(w http.ResponseWriter, _ *http.Request, res core.Result) {
			status, body := denied(res)
			if status == 0 {
				return
			}
			w.WriteHeader(status)
			_, _ = io.WriteString(w, body)
		})
	},
	OnError: func(failed func(error) (int, string)) chilimit.Option {
		return chilimit.OnError(func(w http.ResponseWriter, _ *http.Request, err error) {
			status, body := failed(err)
			if status == 0 {
				return
			}
			w.WriteHeader(status)
			_, _ = io.WriteString(w, body)
		})
	},
	Serve:           serve,
	ProblemBody:     true,
	RouteKnownInUse: true,
	ParamKnownInUse: true,
	Streams:         true,
	ContextEnds:     true,
}

func serve(l net.Listener, app adaptertest.App[chilimit.KeyFunc, chilimit.Option]) error {
	r := chi.NewRouter()
	r.Use(func(next http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			defer func() {
				if recover() != nil {
					w.WriteHeader(http.StatusInternalServerError)
				}
			}()
			ctx := context.WithValue(r.Context(), adaptertest.ValueKey, app.Value)
			next.ServeHTTP(w, r.WithContext(app.Context(ctx)))
		})
	})
	r.Use(limiters(app.Use)...)
	for _, route := range app.Routes {
		r.With(limiters(route.Use)...).MethodFunc(route.Method, route.Pattern, func(w http.ResponseWriter, r *http.Request) {
			reply := route.Handle(r.Context())
			if !reply.Send(w) {
				return
			}
			if reply.AsError {
				http.Error(w, "handler", reply.Status)
				return
			}
			w.Header().Set(adaptertest.AllHeader, adaptertest.All(chilimit.AllFromContext(r.Context())))
			w.WriteHeader(reply.Status)
			_, _ = io.WriteString(w, adaptertest.Body(chilimit.FromContext(r.Context())))
		})
	}
	return http.Serve(l, r)
}

func limiters(described []adaptertest.Limiter[chilimit.KeyFunc, chilimit.Option]) (chain []func(http.Handler) http.Handler) {
	for _, m := range described {
		if m.PerIP != nil {
			chain = append(chain, chilimit.PerIP(m.PerIP...))
			continue
		}
		if m.Together == nil {
			chain = append(chain, chilimit.New(m.Limiter, m.Key, m.Options...))
			continue
		}
		var rules []chilimit.Rule
		for _, r := range m.Together {
			rules = append(rules, chilimit.Rule(r))
		}
		chain = append(chain, chilimit.NewTogether(rules, m.Options...))
	}
	return chain
}
