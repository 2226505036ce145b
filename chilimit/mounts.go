package chilimit

import (
	"reflect"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/go-chi/chi/v5"
)

// mounts remembers which routers are mounted where. Each router is read when a request first comes by it: routes are
// added before. Of programs that make ever new routers it remembers maxRouters.
type mounts struct {
	routers sync.Map // of chi.Routes to mountPoints
	known   atomic.Int64
}

const maxRouters = 1000

// mountPoints are one router's.
type mountPoints struct {
	routers map[string]chi.Routes      // what is mounted, by its pattern, such as /api/*
	routes  map[string]map[string]bool // the methods of routes, by pattern: some stand in place of a mount point
}

// below returns the router that requests of pattern and method go to, of those mounted on r; nil if that is a route,
// or if no router is mounted there.
func (m *mounts) below(r chi.Routes, pattern, method string) chi.Routes {
	points := m.of(r)
	if points.routes[pattern][method] {
		return nil
	}
	if !strings.HasSuffix(pattern, "*") { // chi adds /api and /api/ to /api/*
		pattern = strings.TrimSuffix(pattern, "/") + "/*"
	}
	return points.routers[pattern]
}

func (m *mounts) of(r chi.Routes) *mountPoints {
	canStore := reflect.TypeOf(r).Comparable() // as chi's own are
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
			if method == "*" { // stands for each of them beside it, or for the mount point
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
