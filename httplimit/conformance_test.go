package httplimit_test

import (
	"context"
	"io"
	"net"
	"net/http"
	"slices"
	"testing"
	"time"

	"github.com/tokenbucket-go/ratelimit/core"
	"github.com/tokenbucket-go/ratelimit/core/adapter/adaptertest"
	"github.com/tokenbucket-go/ratelimit/core/redisstore"
	"github.com/tokenbucket-go/ratelimit/core/store"
	"github.com/tokenbucket-go/ratelimit/httplimit"
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

var kit = adaptertest.Kit[httplimit.KeyFunc, httplimit.Option]{
	ByIP: httplimit.ByIP, ByHeader: httplimit.ByHeader, ByCookie: httplimit.ByCookie, ByQuery: httplimit.ByQuery,
	ByParam: httplimit.ByParam, ByContextValue: httplimit.ByContextValue, ByMethod: httplimit.ByMethod,
	ByPath: httplimit.ByPath, ByRoute: byRoute, Global: httplimit.Global, Join: httplimit.Join,
	FirstOf: httplimit.FirstOf,
	Custom: func(key func(adaptertest.Header) (string, error)) httplimit.KeyFunc {
		return func(r *http.Request) (string, error) { return key(r.Header.Get) }
	},
	ReadHeader: func(name string) httplimit.KeyFunc {
		return func(r *http.Request) (string, error) { return r.Header.Get(name), nil }
	},
	ReadCookie: func(name string) httplimit.KeyFunc {
		return func(r *http.Request) (string, error) {
			if c, err := r.Cookie(name); err == nil {
				return c.Value, nil
			}
			return "", nil
		}
	},
	ReadQuery: func(name string) httplimit.KeyFunc {
		return func(r *http.Request) (string, error) { return r.URL.Query().Get(name), nil }
	},
	RouteAdvice: "httplimit.ByRouteOf(mux)",
	WithCost: func(cost func(adaptertest.Header) (int64, error)) httplimit.Option {
		return httplimit.WithCost(func(r *http.Request) (int64, error) { return cost(r.Header.Get) })
	},
	CostByContentLength: func(bytesPerToken int64) httplimit.Option {
		return httplimit.WithCost(httplimit.CostByContentLength(bytesPerToken))
	},
	CostByContentLengthOr: func(bytesPerToken, unknown int64) httplimit.Option {
		return httplimit.WithCost(httplimit.CostByContentLengthOr(bytesPerToken, unknown))
	},
	WithUnits: func(units func(adaptertest.Header) (core.Units, error)) httplimit.Option {
		return httplimit.WithUnits(func(r *http.Request) (core.Units, error) { return units(r.Header.Get) })
	},
	WithSettle: func(settle func(adaptertest.Header, int) core.Units) httplimit.Option {
		return httplimit.WithSettle(func(r *http.Request, status int) core.Units { return settle(r.Header.Get, status) })
	},
	WithLimits: func(limits func(adaptertest.Header) ([]core.Limit, error)) httplimit.Option {
		return httplimit.WithLimits(func(r *http.Request) ([]core.Limit, error) { return limits(r.Header.Get) })
	},
	WithSkip: func(skip func(adaptertest.Header) bool) httplimit.Option {
		return httplimit.WithSkip(func(r *http.Request) bool { return skip(r.Header.Get) })
	},
	WithRefund: func(refund func(adaptertest.Header, int) bool) httplimit.Option {
		return httplimit.WithRefund(func(r *http.Request, status int) bool { return refund(r.Header.Get, status) })
	},
	OnDenied: func(denied func(core.Result) (int, string)) httplimit.Option {
		return httplimit.OnDenied(func(w http.ResponseWriter, _ *http.Request, res core.Result) {
			status, body := denied(res)
			if status == 0 {
				return
			}
			w.WriteHeader(status)
			_, _ = io.WriteString(w, body)
		})
	},
	OnError: func(failed func(error) (int, string)) httplimit.Option {
		return httplimit.OnError(func(w http.ResponseWriter, _ *http.Request, err error) {
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
	Streams:         true,
	ContextEnds:     true,
}

func serve(l net.Listener, app adaptertest.App[httplimit.KeyFunc, httplimit.Option]) error {
	mux := http.NewServeMux()
	for _, route := range app.Routes {
		mux.Handle(route.Method+" "+route.Pattern, limited(route.Use, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			reply := route.Handle(r.Context())
			if !reply.Send(w) {
				return
			}
			if reply.AsError {
				http.Error(w, "handler", reply.Status)
				return
			}
			w.Header().Set(adaptertest.AllHeader, adaptertest.All(httplimit.AllFromContext(r.Context())))
			w.WriteHeader(reply.Status)
			_, _ = io.WriteString(w, adaptertest.Body(httplimit.FromContext(r.Context())))
		})))
	}
	outer := limited(app.Use, mux)
	return http.Serve(l, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		defer func() {
			if recover() != nil {
				w.WriteHeader(http.StatusInternalServerError)
			}
		}()
		ctx := context.WithValue(r.Context(), adaptertest.ValueKey, app.Value)
		ctx = context.WithValue(ctx, muxKey{}, mux)
		outer.ServeHTTP(w, r.WithContext(app.Context(ctx)))
	}))
}

func limited(limiters []adaptertest.Limiter[httplimit.KeyFunc, httplimit.Option], h http.Handler) http.Handler {
	for _, m := range slices.Backward(limiters) {
		if m.PerIP != nil {
			h = httplimit.PerIP(m.PerIP...)(h)
			continue
		}
		if m.Together == nil {
			h = httplimit.New(m.Limiter, m.Key, m.Options...)(h)
			continue
		}
		var rules []httplimit.Rule
		for _, r := range m.Together {
			rules = append(rules, httplimit.Rule(r))
		}
		h = httplimit.NewTogether(rules, m.Options...)(h)
	}
	return h
}

type muxKey struct{}

// byRoute is ByRouteOf the mux that serves the request. It finds the mux in the request's context, because the suite
// makes keys before apps.
func byRoute() httplimit.KeyFunc {
	return func(r *http.Request) (string, error) {
		return httplimit.ByRouteOf(r.Context().Value(muxKey{}).(*http.ServeMux))(r)
	}
}
