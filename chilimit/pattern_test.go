package chilimit_test

import (
	"net/http"
	"testing"

	"github.com/go-chi/chi/v5"
	"github.com/stretchr/testify/assert"

	"github.com/tokenbucket-go/ratelimit/chilimit"
	"github.com/tokenbucket-go/ratelimit/core"
	"github.com/tokenbucket-go/ratelimit/internal/limittest"
)

// Middleware in front of limiters, such as that of OpenTelemetry, reads the
// route from its own request when the handler has returned. Chi sets it in the
// request that it routes.
func TestMiddlewareInFrontSeesTheRoute(t *testing.T) {
	limiter := limittest.Limiter(t, core.NewMemoryStore(), "api", core.PerDay(100))
	handler := func(http.ResponseWriter, *http.Request) {}
	var seen *http.Request
	r := chi.NewRouter()
	r.Use(func(next http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			seen = r
			ctx := r.Context()
			next.ServeHTTP(w, r)
			assert.Equal(t, ctx, r.Context(), "the request in front of the limiters has another context")
		})
	})
	r.Use(chilimit.New(limiter, chilimit.Global("a")), chilimit.New(limiter, chilimit.Global("b")))
	r.Get("/items/{id}/*", handler)
	r.Route("/users/{user}", func(r chi.Router) { r.With(chilimit.New(limiter, chilimit.Global("c"))).Get("/posts/{id}", handler) })
	for target, want := range map[string][]string{
		"/items/7/a/b":       {"/items/{id}/*", "7", ""},
		"/users/ann/posts/8": {"/users/{user}/posts/{id}", "8", "ann"},
		"/nowhere":           {"", "", ""},
	} {
		send(r, "GET", target, nil)
		assert.Equal(t, want, []string{seen.Pattern, seen.PathValue("id"), seen.PathValue("user")}, target)
	}
}
