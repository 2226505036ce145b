package chilimit_test

import (
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/go-chi/chi/v5"

	"github.com/tokenbucket-go/ratelimit/chilimit"
	"github.com/tokenbucket-go/ratelimit/core"
)

// Middleware in front of limiters, such as that of OpenTelemetry, reads the
// route from its own request when the handler has returned. Chi sets it in the
// request that it routes.
func TestMiddlewareInFrontSeesTheRoute(t *testing.T) {
	limiter := core.Must(core.NewLimiter(core.NewMemoryStore(), core.Policy{Name: "api", Limits: []core.Limit{core.PerDay(100)}}))
	var seen *http.Request
	r := chi.NewRouter()
	r.Use(func(next http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			seen = r
			ctx := r.Context()
			next.ServeHTTP(w, r)
			if r.Context() != ctx {
				t.Error("the request in front of the limiters has another context")
			}
		})
	})
	r.Use(chilimit.New(limiter, chilimit.Global("a")), chilimit.New(limiter, chilimit.Global("b")))
	r.Get("/items/{id}/*", func(http.ResponseWriter, *http.Request) {})
	r.Route("/users/{user}", func(r chi.Router) {
		r.With(chilimit.New(limiter, chilimit.Global("c"))).Get("/posts/{id}", func(http.ResponseWriter, *http.Request) {})
	})
	for _, x := range []struct{ target, pattern, name, value string }{
		{"/items/7/a/b", "/items/{id}/*", "id", "7"},
		{"/users/ann/posts/8", "/users/{user}/posts/{id}", "user", "ann"},
		{"/nowhere", "", "id", ""},
	} {
		r.ServeHTTP(httptest.NewRecorder(), httptest.NewRequest(http.MethodGet, x.target, nil))
		if seen.Pattern != x.pattern || seen.PathValue(x.name) != x.value {
			t.Errorf("%s: in front of the limiters the pattern is %q with %s %q, want %+v", x.target, seen.Pattern, x.name, seen.PathValue(x.name), x)
		}
	}
}
