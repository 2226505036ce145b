package httplimit_test

import (
	"net"
	"net/http"
	"slices"
	"testing"

	"github.com/tokenbucket-go/ratelimit/core"
	"github.com/tokenbucket-go/ratelimit/core/adapter/adaptertest"
	"github.com/tokenbucket-go/ratelimit/core/store"
	"github.com/tokenbucket-go/ratelimit/httplimit"
	"github.com/tokenbucket-go/ratelimit/internal/bothstores"
	"github.com/tokenbucket-go/ratelimit/internal/nethttp/nethttptest"
)

func TestConformance(t *testing.T) {
	bothstores.Run(t, func(t *testing.T, store func(store.Option) core.Store) { adaptertest.Run(t, kit, store) })
}

var kit = nethttptest.Kit(adaptertest.Kit[*http.Request, httplimit.KeyFunc, httplimit.Option, httplimit.Rule, nethttptest.Middleware]{
	New: httplimit.New, NewTogether: httplimit.NewTogether, PerIP: httplimit.PerIP,
	ByIP: httplimit.ByIP, ClientIP: httplimit.ClientIP, ByHeader: httplimit.ByHeader, ByCookie: httplimit.ByCookie, ByQuery: httplimit.ByQuery, ByParam: httplimit.ByParam,
	ByContextValue: httplimit.ByContextValue, ByMethod: httplimit.ByMethod, ByPath: httplimit.ByPath, ByRoute: httplimit.ByRoute,
	Global: httplimit.Global, Join: httplimit.Join, FirstOf: httplimit.FirstOf,
	WithCost: httplimit.WithCost, CostByContentLength: httplimit.CostByContentLength, CostByContentLengthOr: httplimit.CostByContentLengthOr,
	WithUnits: httplimit.WithUnits, WithFloor: httplimit.WithFloor, WithSettle: httplimit.WithSettle, WithPlan: httplimit.WithPlan, WithLimits: httplimit.WithLimits, WithSkip: httplimit.WithSkip, WithRefund: httplimit.WithRefund,
	Serve: serve, RouteAdvice: "httplimit.ByRouteOf(mux)",
}, httplimit.OnDenied, httplimit.OnError, httplimit.Allow)

func serve(l net.Listener, app adaptertest.App[nethttptest.Middleware]) error {
	mux := http.NewServeMux()
	for _, route := range app.Routes {
		handler := nethttptest.Handler(route, httplimit.FromContext, httplimit.AllFromContext)
		mux.Handle(route.Method+" "+route.Pattern, limited(route.Use, handler))
	}
	return http.Serve(l, nethttptest.Outermost(app)(limited(app.Use, mux)))
}

func limited(by []nethttptest.Middleware, h http.Handler) http.Handler {
	for _, m := range slices.Backward(by) {
		h = m(h)
	}
	return h
}
