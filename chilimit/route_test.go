package chilimit_test

import (
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/go-chi/chi/v5"
	"github.com/go-chi/chi/v5/middleware"

	"github.com/tokenbucket-go/ratelimit/chilimit"
)

func TestByRouteIsTheWholePatternWhereverTheLimiterStands(t *testing.T) {
	type keys struct{ route, param string }
	var got keys
	read := func(next http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			got.route, _ = chilimit.ByRoute()(r)
			got.param, _ = chilimit.ByParam("id")(r)
			next.ServeHTTP(w, r)
		})
	}
	pass := func(next http.Handler) http.Handler { return next }
	// build returns an app with middleware in the root, in the mounted router
	// and at the route.
	build := func(root, mounted, route func(http.Handler) http.Handler, before ...func(http.Handler) http.Handler) http.Handler {
		r := chi.NewRouter()
		r.Use(before...)
		r.Use(root)
		r.Route("/api/{version}", func(r chi.Router) {
			r.Use(mounted)
			r.With(route).Get("/items/{id}", func(w http.ResponseWriter, r *http.Request) {
				w.Header().Set("Route", chi.RouteContext(r.Context()).RoutePattern())
			})
		})
		r.Get("/items/{id}", func(http.ResponseWriter, *http.Request) { t.Error("the wrong route") })
		return r
	}
	for _, place := range []struct {
		name                 string
		root, mounted, route func(http.Handler) http.Handler
	}{{"in the root", read, pass, pass}, {"in the mounted router", pass, read, pass}, {"at the route", pass, pass, read}} {
		for _, test := range []struct {
			name, method, target string
			before               []func(http.Handler) http.Handler
			param                string
		}{
			{"plain", "GET", "/api/v1/items/7", nil, "param:id:7"},
			{"an escaped slash", "GET", "/api/v1/items/7%2F8", nil, "param:id:7/8"}, // decoded
			{"StripSlashes", "GET", "/api/v1/items/7/", []func(http.Handler) http.Handler{middleware.StripSlashes}, "param:id:7"},
			{"CleanPath", "GET", "/api//v1/items/7", []func(http.Handler) http.Handler{middleware.CleanPath}, "param:id:7"},
			{"GetHead", "HEAD", "/api/v1/items/7", []func(http.Handler) http.Handler{middleware.GetHead}, "param:id:7"},
		} {
			t.Run(test.name+" "+place.name, func(t *testing.T) {
				got = keys{}
				rec := httptest.NewRecorder()
				build(place.root, place.mounted, place.route, test.before...).
					ServeHTTP(rec, httptest.NewRequest(test.method, test.target, nil))
				if rec.Code != http.StatusOK || rec.Header().Get("Route") != "/api/{version}/items/{id}" {
					t.Fatalf("the premise: chi answered %d from route %q", rec.Code, rec.Header().Get("Route"))
				}
				if want := (keys{"route:/api/{version}/items/{id}", test.param}); got != want {
					t.Errorf("the keys are %q, want %q", got, want)
				}
			})
		}
	}
}
