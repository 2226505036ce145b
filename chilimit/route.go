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

// newRouter returns a Router that reads the route and parameters that a request
// has, or will have at its handler.
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
				found = chi.RouteContext(r.Context()) // what chi knows so far
			}
			if found == nil {
				return ""
			}
			return adapter.DecodeParam(r, found.URLParam(name))
		},
	}
}

// find returns the routing context that r will have at its handler, or already
// has there. It returns nil if no route matches. It does what chi does. It
// reads the path and the method from chi's context, because middleware such as
// StripSlashes, CleanPath and GetHead changes them there and not in r.
func (m *mounts) find(r *http.Request) *chi.Context {
	current := chi.RouteContext(r.Context())
	if current == nil || current.Routes == nil {
		return nil
	}
	method := cmp.Or(current.RouteMethod, r.Method)
	// The next router is below the mount points that r has passed.
	at := current.Routes
	for _, pattern := range current.RoutePatterns {
		if at = m.below(at, pattern, method); at == nil {
			return current // r is at its route, or in a mounted handler that is not a chi.Routes
		}
	}
	found := chi.NewRouteContext()
	found.RoutePatterns = slices.Clone(current.RoutePatterns)
	found.URLParams.Keys = slices.Clone(current.URLParams.Keys)
	found.URLParams.Values = slices.Clone(current.URLParams.Values)
	for path := pathBelow(current, r); ; path = "/" {
		known := len(found.RoutePatterns)
		at.Find(found, method, path) // it searches mounted routers too, even if a route replaces a mount point
		for i, pattern := range found.RoutePatterns[known:] {
			if at = m.below(at, pattern, method); at == nil {
				cut(found, known+i+1)
				return found
			}
		}
		// If the search ended at a mount point itself, such as /api for the
		// path "/api", chi continues below it with the path "/". Otherwise no
		// route matches.
		if last := len(found.RoutePatterns); last == known || strings.HasSuffix(found.RoutePatterns[last-1], "*") {
			return nil
		}
	}
}

// pathBelow returns the path that the next router matches.
func pathBelow(current *chi.Context, r *http.Request) string {
	if len(current.RoutePatterns) == 0 {
		return cmp.Or(current.RoutePath, r.URL.RawPath, r.URL.Path, "/")
	}
	if !strings.HasSuffix(current.RoutePatterns[len(current.RoutePatterns)-1], "*") {
		return "/" // the request is for the mount point itself
	}
	// In front of the mount point, as in With(limit).Mount(…), the rest of the
	// path is the value of the wildcard. Behind it, chi has emptied that value.
	if n := len(current.URLParams.Keys) - 1; n >= 0 && n < len(current.URLParams.Values) && current.URLParams.Values[n] != "" {
		return "/" + current.URLParams.Values[n]
	}
	return cmp.Or(current.RoutePath, "/")
}

// cut reduces found to what chi knows at the handler of its n-th pattern: the
// parameters up to that pattern. As in chi, wildcards of mount points are
// empty, and only the wildcard of the route keeps its value.
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

// parameters returns the number of parameters of a pattern: {name},
// {name:regexp} and *. A regexp may contain braces.
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
