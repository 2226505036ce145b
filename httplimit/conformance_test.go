package httplimit_test

import (
	"context"
	"io"
	"net"
	"net/http"
	"slices"
	"testing"

	"github.com/tokenbucket-go/ratelimit/core"
	"github.com/tokenbucket-go/ratelimit/core/adapter/adaptertest"
	"github.com/tokenbucket-go/ratelimit/core/store"
	"github.com/tokenbucket-go/ratelimit/httplimit"
	"github.com/tokenbucket-go/ratelimit/internal/bothstores"
)

func TestConformance(t *testing.T) {
	bothstores.Run(t, func(t *testing.T, store func(store.Option) core.Store) { adaptertest.Run(t, kit, store) })
}

var kit = adaptertest.Kit[*http.Request, httplimit.KeyFunc, httplimit.Option, httplimit.Rule, func(http.Handler) http.Handler]{
	New: httplimit.New, NewTogether: httplimit.NewTogether, PerIP: httplimit.PerIP,
	ByIP: httplimit.ByIP, ClientIP: httplimit.ClientIP, ByHeader: httplimit.ByHeader, ByCookie: httplimit.ByCookie, ByQuery: httplimit.ByQuery, ByParam: httplimit.ByParam,
	ByContextValue: httplimit.ByContextValue, ByMethod: httplimit.ByMethod, ByPath: httplimit.ByPath, ByRoute: httplimit.ByRoute,
	Global: httplimit.Global, Join: httplimit.Join, FirstOf: httplimit.FirstOf,
	WithCost: httplimit.WithCost, CostByContentLength: httplimit.CostByContentLength, CostByContentLengthOr: httplimit.CostByContentLengthOr,
	WithUnits: httplimit.WithUnits, WithFloor: httplimit.WithFloor, WithSettle: httplimit.WithSettle, WithPlan: httplimit.WithPlan, WithLimits: httplimit.WithLimits, WithSkip: httplimit.WithSkip, WithRefund: httplimit.WithRefund,
	OnDenied: func(denied func(core.Result) (int, string)) httplimit.Option {
		return httplimit.OnDenied(func(w http.ResponseWriter, _ *http.Request, res core.Result) { answer(w)(denied(res)) })
	},
	OnError: func(failed func(error) (int, string)) httplimit.Option {
		return httplimit.OnError(func(w http.ResponseWriter, _ *http.Request, err error) { answer(w)(failed(err)) })
	},
	Allow: func(limiter *core.Limiter, key func(*http.Request) string, then func(core.Result)) func(http.Handler) http.Handler {
		return func(next http.Handler) http.Handler {
			return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				if res, ok := httplimit.Allow(w, r, limiter, key(r)); ok {
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
	RouteAdvice: "httplimit.ByRouteOf(mux)", ProblemBody: true, NetHTTP: true,
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
	mux := http.NewServeMux()
	for _, route := range app.Routes {
		mux.Handle(route.Method+" "+route.Pattern, limited(route.Use, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			res, ok := httplimit.FromContext(r.Context())
			reply := route.Handle(r.Context(), res, ok, httplimit.AllFromContext(r.Context()))
			switch {
			case reply.HTTP != nil:
				reply.HTTP(w, r)
			case reply.AsError:
				http.Error(w, "handler", reply.Status)
			default:
				w.WriteHeader(reply.Status)
				_, _ = io.WriteString(w, reply.Body)
			}
		})))
	}
	outer := limited(app.Use, mux)
	return http.Serve(l, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
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
		outer.ServeHTTP(w, r.WithContext(ctx))
	}))
}

func limited(by []func(http.Handler) http.Handler, h http.Handler) http.Handler {
	for _, m := range slices.Backward(by) {
		h = m(h)
	}
	return h
}
