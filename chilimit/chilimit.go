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
	"strings"

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
	for _, option := range options {
		if option != nil {
			option(&c)
		}
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

// find tells where r will go, or went. Middleware such as StripSlashes, CleanPath and GetHead changes
// the path and the method in chi's own context, not in r.
func find(r *http.Request) (route string, found *chi.Context) {
	found = chi.NewRouteContext()
	current := chi.RouteContext(r.Context())
	if current == nil || current.Routes == nil {
		return "", found
	}
	// At the route itself chi has the whole pattern.
	pattern := current.RoutePattern()
	if pattern != "" && !strings.HasSuffix(pattern, "*") {
		return pattern, current
	}
	method, requested := cmp.Or(current.RouteMethod, r.Method), cmp.Or(r.URL.RawPath, r.URL.Path, "/")
	if pattern == "" { // in the root: not routed yet
		return current.Routes.Find(found, method, cmp.Or(current.RoutePath, requested)), found
	}
	// In a mounted router: RoutePath is what remains behind the mount points.
	if route = current.Routes.Find(found, method, mountPoint(current)+current.RoutePath); route != "" {
		return route, found
	}
	// At a route that itself ends in a wildcard, which looks the same.
	found = chi.NewRouteContext()
	return current.Routes.Find(found, method, requested), found
}

// mountPoint is the path at which the current router is mounted, with the request's parameters in
// place of {name} and {name:regexp}; a regexp may have braces of its own.
func mountPoint(current *chi.Context) string {
	var path strings.Builder
	depth, begin := 0, 0
	for i, char := range strings.TrimSuffix(current.RoutePattern(), "/*") {
		switch {
		case char == '{':
			if depth++; depth == 1 {
				begin = i + 1
			}
		case char == '}':
			if depth--; depth == 0 {
				name, _, _ := strings.Cut(current.RoutePattern()[begin:i], ":")
				path.WriteString(current.URLParam(name))
			}
		case depth == 0:
			path.WriteRune(char)
		}
	}
	return path.String()
}
