package httplimit_test

import (
	"context"
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/tokenbucket-go/ratelimit/core"
	"github.com/tokenbucket-go/ratelimit/httplimit"
	"github.com/tokenbucket-go/ratelimit/internal/limittest"
)

// Middleware in front of limiters, such as otelhttp, reads the route from its
// own request when the handler has returned. A mux behind them sets it in the
// request that it got.
func TestMiddlewareInFrontSeesTheRoute(t *testing.T) {
	type outerKey struct{}
	limiter := limittest.Limiter(t, core.NewMemoryStore(), "api", core.PerDay(100))
	mux := http.NewServeMux()
	mux.HandleFunc("GET /items/{id}/{rest...}", func(http.ResponseWriter, *http.Request) {})
	mux.HandleFunc("GET /panics/{id}", func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) })
	app := httplimit.New(limiter, httplimit.Global("a"))(httplimit.New(limiter, httplimit.Global("b"))(mux))
	for target, want := range map[string][]string{
		"/items/7/a/b": {"GET /items/{id}/{rest...}", "7", "a/b"},
		"/panics/8":    {"GET /panics/{id}", "8", ""},
		"/nowhere":     {"", "", ""},
	} {
		r := httptest.NewRequest(http.MethodGet, target, nil)
		r = r.WithContext(context.WithValue(r.Context(), outerKey{}, "outer"))
		ctx := r.Context()
		func() {
			defer func() { _ = recover() }()
			app.ServeHTTP(httptest.NewRecorder(), r)
		}()
		assert.Equal(t, want, []string{r.Pattern, r.PathValue("id"), r.PathValue("rest")}, target)
		assert.Equal(t, ctx, r.Context(), "%s: the request in front of the limiters has another context", target)
	}
}
