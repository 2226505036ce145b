package chilimit_test

import (
	"context"
	"io"
	"net"
	"net/http"
	"testing"

	"github.com/go-chi/chi/v5"

	"github.com/tokenbucket-go/ratelimit/chilimit"
	"github.com/tokenbucket-go/ratelimit/core"
	"github.com/tokenbucket-go/ratelimit/core/adapter/adaptertest"
	"github.com/tokenbucket-go/ratelimit/core/store"
	"github.com/tokenbucket-go/ratelimit/internal/bothstores"
)

func TestConformance(t *testing.T) {
	bothstores.Run(t, func(t *testing.T, store func(store.Option) core.Store) { adaptertest.Run(t, kit, store) })
}

var kit = adaptertest.Kit[*http.Request, chilimit.KeyFunc, chilimit.Option, chilimit.Rule, func(http.Handler) http.Handler]{
	New: chilimit.New, NewTogether: chilimit.NewTogether, PerIP: chilimit.PerIP,
	ByIP: chilimit.ByIP, ClientIP: chilimit.ClientIP, ByHeader: chilimit.ByHeader, ByCookie: chilimit.ByCookie, ByQuery: chilimit.ByQuery, ByParam: chilimit.ByParam,
	ByContextValue: chilimit.ByContextValue, ByMethod: chilimit.ByMethod, ByPath: chilimit.ByPath, ByRoute: chilimit.ByRoute,
	Global: chilimit.Global, Join: chilimit.Join, FirstOf: chilimit.FirstOf,
	WithCost: chilimit.WithCost, CostByContentLength: chilimit.CostByContentLength, CostByContentLengthOr: chilimit.CostByContentLengthOr,
	WithUnits: chilimit.WithUnits, WithFloor: chilimit.WithFloor, WithSettle: chilimit.WithSettle, WithPlan: chilimit.WithPlan, WithLimits: chilimit.WithLimits, WithSkip: chilimit.WithSkip, WithRefund: chilimit.WithRefund,
	OnDenied: func(denied func(core.Result) (int, string)) chilimit.Option {
		return chilimit.OnDenied(func(w http.ResponseWriter, _ *http.Request, res core.Result) { answer(w)(denied(res)) })
	},
	OnError: func(failed func(error) (int, string)) chilimit.Option {
		return chilimit.OnError(func(w http.ResponseWriter, _ *http.Request, err error) { answer(w)(failed(err)) })
	},
	Allow: func(limiter *core.Limiter, key func(*http.Request) string, then func(core.Result)) func(http.Handler) http.Handler {
		return func(next http.Handler) http.Handler {
			return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				if res, ok := chilimit.Allow(w, r, limiter, key(r)); ok {
					then(res)
					next.ServeHTTP(w, r)
				}
			})
		}
	},
	Header:      func(r *http.Request, name string) string { return r.Header.Get(name) },
	Cookie:      cookie,
	Query:       func(r *http.Request, name string) string { return r.URL.Query().Get(name) },
	Serve:       serve,
	ProblemBody: true, RouteKnownInUse: true, NetHTTP: true,
}

// answer returns a function that writes an answer, if status is not 0.
func answer(w http.ResponseWriter) func(status int, body string) {
	return func(status int, body string) {
		if status != 0 {
			w.WriteHeader(status)
			_, _ = io.WriteString(w, body)
		}
	}
}

func cookie(r *http.Request, name string) string {
	if c, err := r.Cookie(name); err == nil {
		return c.Value
	}
	return ""
}

func serve(l net.Listener, app adaptertest.App[func(http.Handler) http.Handler]) error {
	r := chi.NewRouter()
	r.Use(func(next http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			defer func() {
				if recover() != nil {
					w.WriteHeader(http.StatusInternalServerError)
				}
			}()
			ctx := app.Context(r.Context())
			for key, value := range app.Values {
				//lint:ignore SA1029 the keys of the suite are strings
				ctx = context.WithValue(ctx, key, value)
			}
			next.ServeHTTP(w, r.WithContext(ctx))
		})
	})
	r.Use(app.Use...)
	for _, route := range app.Routes {
		r.With(route.Use...).MethodFunc(route.Method, route.Pattern, func(w http.ResponseWriter, r *http.Request) {
			res, ok := chilimit.FromContext(r.Context())
			reply := route.Handle(r.Context(), res, ok, chilimit.AllFromContext(r.Context()))
			switch {
			case reply.HTTP != nil:
				reply.HTTP(w, r)
			case reply.AsError:
				http.Error(w, "handler", reply.Status)
			default:
				w.WriteHeader(reply.Status)
				_, _ = io.WriteString(w, reply.Body)
			}
		})
	}
	return http.Serve(l, r)
}
