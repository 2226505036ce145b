// Package nethttptest describes adapters for net/http, and for routers on top
// of it, to package adaptertest. It is a package because package nethttp, which
// apps link, must not import testing.
package nethttptest

import (
	"context"
	"io"
	"net/http"

	"github.com/tokenbucket-go/ratelimit/core"
	"github.com/tokenbucket-go/ratelimit/core/adapter/adaptertest"
)

// Middleware is what New of such an adapter returns.
type Middleware = func(http.Handler) http.Handler

// Kit returns k with what the requests of net/http decide: how apps read them,
// and how OnDenied, OnError and Allow of the adapter answer.
func Kit[K ~func(*http.Request) (string, error), O any, R ~struct {
	Limiter *core.Limiter
	Key     K
}](
	k adaptertest.Kit[*http.Request, K, O, R, Middleware],
	onDenied func(func(http.ResponseWriter, *http.Request, core.Result)) O,
	onError func(func(http.ResponseWriter, *http.Request, error)) O,
	allow func(http.ResponseWriter, *http.Request, *core.Limiter, string) (core.Result, bool),
) adaptertest.Kit[*http.Request, K, O, R, Middleware] {
	k.OnDenied = func(denied func(core.Result) (int, string)) O {
		return onDenied(func(w http.ResponseWriter, _ *http.Request, res core.Result) { answer(w)(denied(res)) })
	}
	k.OnError = func(failed func(error) (int, string)) O {
		return onError(func(w http.ResponseWriter, _ *http.Request, err error) { answer(w)(failed(err)) })
	}
	k.Allow = func(limiter *core.Limiter, key func(*http.Request) string, then func(core.Result)) Middleware {
		return func(next http.Handler) http.Handler {
			return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				if res, ok := allow(w, r, limiter, key(r)); ok {
					then(res)
					next.ServeHTTP(w, r)
				}
			})
		}
	}
	k.Header = func(r *http.Request, name string) string { return r.Header.Get(name) }
	k.Query = func(r *http.Request, name string) string { return r.URL.Query().Get(name) }
	k.Cookie = func(r *http.Request, name string) string {
		if c, err := r.Cookie(name); err == nil {
			return c.Value
		}
		return ""
	}
	k.ProblemBody, k.NetHTTP = true, true
	return k
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

// Handler is the handler of a route. from and all are FromContext and
// AllFromContext of the adapter.
func Handler(
	route adaptertest.Route[Middleware], from func(context.Context) (core.Result, bool), all func(context.Context) []core.Result,
) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		res, ok := from(r.Context())
		reply := route.Handle(r.Context(), res, ok, all(r.Context()))
		switch {
		case reply.HTTP != nil:
			reply.HTTP(w, r)
		case reply.AsError:
			http.Error(w, "handler", reply.Status)
		default:
			w.WriteHeader(reply.Status)
			_, _ = io.WriteString(w, reply.Body)
		}
	}
}

// Outermost is the middleware in front of all limiters of app.
func Outermost(app adaptertest.App[Middleware]) Middleware {
	return func(next http.Handler) http.Handler {
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
	}
}
