package chilimit_test

import (
	"context"
	"net/http"
	"testing"

	"github.com/go-chi/chi/v5"

	"github.com/tokenbucket-go/ratelimit/chilimit"
	"github.com/tokenbucket-go/ratelimit/core"
	"github.com/tokenbucket-go/ratelimit/internal/limittest"
)

func TestMiddlewareAddsFewAllocations(t *testing.T) {
	serve := func(middleware func(http.Handler) http.Handler) func() {
		r := chi.NewRouter()
		r.Use(middleware)
		r.Get("/", func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusNoContent) })
		return limittest.Request(t, r)
	}
	type key struct{}
	limiter := limittest.Limiter(t, core.NewMemoryStore(), "api", core.PerMinute(1_000_000))
	limittest.CheckAdded(t,
		serve(func(next http.Handler) http.Handler { return next }),
		serve(func(next http.Handler) http.Handler {
			return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				next.ServeHTTP(w, r.WithContext(context.WithValue(r.Context(), key{}, t)))
			})
		}),
		serve(chilimit.New(limiter, chilimit.ByIP())))
}
