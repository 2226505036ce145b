package chilimit

import (
	"cmp"
	"net/http"
	"slices"
	"strings"

	"github.com/go-chi/chi/v5"

	"github.com/tokenbucket-go/ratelimit/core/adapter"
	"github.com/tokenbucket-go/ratelimit/internal/nethttp"
)

// newRouter reads what chi knows of a request, or will know when it has routed it.
func newRouter() nethttp.Router {
	var m mounts
	return nethttp.Router{
		Route: func(r *http.Request) (string, bool) {
			found := m.find(r)
			if found == nil {
				return "", false
			}
			return found.RoutePattern(), true
		},
		Param: func(r *http.Request, name string) string {
			found := m.find(r)
			if found == nil {
				found = chi.RouteContext(r.Context()) // what is known so far
			}
			if found == nil {
				return ""
			}
			return adapter.DecodeParam(r, found.URLParam(name))
		},
	}
}

// find returns the routing context that r will have at its handler, or has there: nil when no route matches. It follows
// chi's own steps. Middleware such as StripSlashes, CleanPath and GetHead changes the path and the method in chi's
// context, not in r.
func (m *mounts) find(r *http.Request) *chi.Context {
	current := chi.RouteContext(r.Context())
	if current == nil || current.Routes == nil {
		return nil
	}
	method := cmp.Or(current.RouteMethod, r.Method)
	// The router that has not routed r yet is below the mount points that r came by.
	at := current.Routes
	for _, pattern := range current.RoutePatterns {
		if at = m.below(at, pattern, method); at == nil {
			return current // at the route itself, or in a mounted handler that is no chi.Routes
		}
	}
	found := chi.NewRouteContext()
	found.RoutePatterns = slices.Clone(current.RoutePatterns)
	found.URLParams.Keys = slices.Clone(current.URLParams.Keys)
	found.URLParams.Values = slices.Clone(current.URLParams.Values)
	for path := pathBelow(current, r); ; path = "/" {
		known := len(found.RoutePatterns)
		at.Find(found, method, path) // goes on through mount points, and past a route that stands in place of one
		for i, pattern := range found.RoutePatterns[known:] {
			if at = m.below(at, pattern, method); at == nil {
				cut(found, known+i+1)
				return found
			}
		}
		// It ends at a mount point itself, "/api" for the path "/api", where chi goes on with "/"; elsewhere there is
		// no route.
		if last := len(found.RoutePatterns); last == known || strings.HasSuffix(found.RoutePatterns[last-1], "*") {
			return nil
		}
	}
}

// pathBelow is the path that the router goes by which has not routed r yet.
func pathBelow(current *chi.Context, r *http.Request) string {
	if len(current.RoutePatterns) == 0 {
		return cmp.Or(current.RoutePath, r.URL.RawPath, r.URL.Path, "/")
	}
	if !strings.HasSuffix(current.RoutePatterns[len(current.RoutePatterns)-1], "*") {
		return "/" // the mount point itself was asked for
	}
	// In front of the mount point, as in With(limit).Mount(…), the rest is the wildcard's value. Behind it, chi
	// has emptied that.
	if n := len(current.URLParams.Keys) - 1; n >= 0 && n < len(current.URLParams.Values) && current.URLParams.Values[n] != "" {
		return "/" + current.URLParams.Values[n]
	}
	return cmp.Or(current.RoutePath, "/")
}

// cut leaves of found what chi knows at the handler of its n-th pattern: the parameters up to there, and of their
// wildcards the route's own alone. Those of mount points are emptied on the way.
func cut(found *chi.Context, n int) {
	found.RoutePatterns = found.RoutePatterns[:n]
	keys := 0
	for _, pattern := range found.RoutePatterns {
		keys += parameters(pattern)
	}
	found.URLParams.Keys = found.URLParams.Keys[:min(keys, len(found.URLParams.Keys))]
	for i, key := range found.URLParams.Keys {
		own := i == len(found.URLParams.Keys)-1 && strings.HasSuffix(found.RoutePatterns[n-1], "*")
		if key == "*" && !own && i < len(found.URLParams.Values) {
			found.URLParams.Values[i] = ""
		}
	}
}

// parameters is how many a pattern has: {name}, {name:regexp}, whose regexp may have braces of its own, and *.
func parameters(pattern string) (n int) {
	depth := 0
	for i := range len(pattern) {
		switch c := pattern[i]; {
		case c == '{':
			if depth++; depth == 1 {
				n++
			}
		case c == '}':
			depth--
		case c == '*' && depth == 0:
			n++
		}
	}
	return n
}
