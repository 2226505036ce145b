package chilimit

import (
	"reflect"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/go-chi/chi/v5"
)

// mounts caches which routers are mounted where. A router is read when the
// first request passes it, because routes are added before. The cache holds at
// most maxRouters, in case a program keeps making new ones.
//
// With one route, reading the router for each request would take 11 allocations
// and 1.1 KB more, and more with each route.
type mounts struct {
	routers sync.Map // of chi.Routes to mountPoints
	known   atomic.Int64
}

const maxRouters = 1000

// mountPoints are those of one router.
type mountPoints struct {
	routers map[string]chi.Routes      // the mounted routers by pattern, such as /api/*
	routes  map[string]map[string]bool // the methods of the routes by pattern, because a route may replace a mount point
}

// below returns the router mounted on r that gets requests of pattern and
// method. It returns nil if they go to a route, or if no router is mounted
// there.
func (m *mounts) below(r chi.Routes, pattern, method string) chi.Routes {
	points := m.of(r)
	if points.routes[pattern][method] {
		return nil
	}
	if !strings.HasSuffix(pattern, "*") { // for a mount at /api/* chi adds /api and /api/
		pattern = strings.TrimSuffix(pattern, "/") + "/*"
	}
	return points.routers[pattern]
}

func (m *mounts) of(r chi.Routes) *mountPoints {
	canStore := reflect.TypeOf(r).Comparable() // chi's own routers are
	if canStore {
		if known, ok := m.routers.Load(r); ok {
			return known.(*mountPoints)
		}
	}
	points := &mountPoints{make(map[string]chi.Routes), make(map[string]map[string]bool)}
	for _, route := range r.Routes() {
		if route.SubRoutes != nil {
			points.routers[route.Pattern] = route.SubRoutes
		}
		for method := range route.Handlers {
			if method == "*" { // except for a mount point, chi lists each method too
				continue
			}
			if points.routes[route.Pattern] == nil {
				points.routes[route.Pattern] = make(map[string]bool)
			}
			points.routes[route.Pattern][method] = true
		}
	}
	if canStore && m.known.Add(1) <= maxRouters {
		m.routers.Store(r, points)
	}
	return points
}
