package chilimit_test

import (
	"net"
	"net/http"
	"testing"

	"github.com/go-chi/chi/v5"

	"github.com/tokenbucket-go/ratelimit/chilimit"
	"github.com/tokenbucket-go/ratelimit/core"
	"github.com/tokenbucket-go/ratelimit/core/adapter/adaptertest"
	"github.com/tokenbucket-go/ratelimit/core/store"
	"github.com/tokenbucket-go/ratelimit/internal/bothstores"
	"github.com/tokenbucket-go/ratelimit/internal/nethttp/nethttptest"
)

func TestConformance(t *testing.T) {
	bothstores.Run(t, func(t *testing.T, store func(store.Option) core.Store) { adaptertest.Run(t, kit, store) })
}

var kit = nethttptest.Kit(adaptertest.Kit[*http.Request, chilimit.KeyFunc, chilimit.Option, chilimit.Rule, nethttptest.Middleware]{
	New: chilimit.New, NewTogether: chilimit.NewTogether, PerIP: chilimit.PerIP,
	ByIP: chilimit.ByIP, ClientIP: chilimit.ClientIP, ByHeader: chilimit.ByHeader, ByCookie: chilimit.ByCookie, ByQuery: chilimit.ByQuery, ByParam: chilimit.ByParam,
	ByContextValue: chilimit.ByContextValue, ByMethod: chilimit.ByMethod, ByPath: chilimit.ByPath, ByRoute: chilimit.ByRoute,
	Global: chilimit.Global, Join: chilimit.Join, FirstOf: chilimit.FirstOf,
	WithCost: chilimit.WithCost, CostByContentLength: chilimit.CostByContentLength, CostByContentLengthOr: chilimit.CostByContentLengthOr,
	WithUnits: chilimit.WithUnits, WithFloor: chilimit.WithFloor, WithSettle: chilimit.WithSettle, WithPlan: chilimit.WithPlan, WithLimits: chilimit.WithLimits, WithSkip: chilimit.WithSkip, WithRefund: chilimit.WithRefund,
	Serve: serve, RouteKnownInUse: true,
}, chilimit.OnDenied, chilimit.OnError, chilimit.Allow)

func serve(l net.Listener, app adaptertest.App[nethttptest.Middleware]) error {
	r := chi.NewRouter()
	r.Use(nethttptest.Outermost(app))
	r.Use(app.Use...)
	for _, route := range app.Routes {
		r.With(route.Use...).Method(route.Method, route.Pattern, nethttptest.Handler(route, chilimit.FromContext, chilimit.AllFromContext))
	}
	return http.Serve(l, r)
}
