// Package chilimit limits requests in chi with token buckets:
//
//	limiter := core.Must(core.NewLimiter(core.NewMemoryStore(), core.Policy{
//		Name: "api", Limits: []core.Limit{core.PerMinute(60)},
//	}))
//	r := chi.NewRouter()
//	r.Use(chilimit.New(limiter, chilimit.ByIP()))
package chilimit

import (
	"cmp"
	"context"
	"net/http"

	"github.com/go-chi/chi/v5"

	"github.com/tokenbucket-go/ratelimit/core"
	"github.com/tokenbucket-go/ratelimit/internal/nethttp"
)

// New returns a middleware that lets a request pass when limiter has tokens for its key.
//
// Headers are those of the policy. A denied request gets 429 and an application/problem+json body
// (RFC 9457), one without a key 400, and one that can't be decided 503 or 500; see OnDenied and
// OnError. New panics when limiter or key is nil.
func New(limiter *core.Limiter, key KeyFunc, options ...Option) func(http.Handler) http.Handler {
	var c nethttp.Config
	for _, o := range options {
		o(&c)
	}
	return nethttp.New(limiter, key, c)
}

// FromContext returns the decision about the request whose context ctx is: of several limiters, the
// one nearest to the handler.
func FromContext(ctx context.Context) (core.Result, bool) { return nethttp.FromContext(ctx) }

// router reads what chi knows of a request, even in a root Use, before chi has routed it.
var router = nethttp.Router{
	Route: func(r *http.Request) string {
		route, _ := find(r)
		return route
	},
	Param: func(r *http.Request, name string) string {
		if v := chi.URLParam(r, name); v != "" {
			return v
		}
		_, found := find(r)
		return found.URLParam(name)
	},
}

// find asks the root router where r will go.
func find(r *http.Request) (route string, found *chi.Context) {
	found = chi.NewRouteContext()
	if current := chi.RouteContext(r.Context()); current != nil && current.Routes != nil {
		path := cmp.Or(r.URL.RawPath, r.URL.Path, "/")
		route = current.Routes.Find(found, r.Method, path)
	}
	return route, found
}
