package httplimit_test

import (
	"context"
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/tokenbucket-go/ratelimit/core"
	"github.com/tokenbucket-go/ratelimit/httplimit"
)

type outerKey struct{}

// Middleware in front of limiters, such as otelhttp, reads the route from its
// own request when the handler has returned. A mux behind them sets it in the
// request that it got.
func TestMiddlewareInFrontSeesTheRoute(t *testing.T) {
	limiter := core.Must(core.NewLimiter(core.NewMemoryStore(), core.Policy{Name: "api", Limits: []core.Limit{core.PerDay(100)}}))
	mux := http.NewServeMux()
	mux.HandleFunc("GET /items/{id}/{rest...}", func(http.ResponseWriter, *http.Request) {})
	mux.HandleFunc("GET /panics/{id}", func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) })
	limit := func(h http.Handler) http.Handler {
		return httplimit.New(limiter, httplimit.Global("a"))(httplimit.New(limiter, httplimit.Global("b"))(h))
	}
	for _, x := range []struct{ target, pattern, id, rest string }{
		{"/items/7/a/b", "GET /items/{id}/{rest...}", "7", "a/b"},
		{"/panics/8", "GET /panics/{id}", "8", ""},
		{"/nowhere", "", "", ""},
	} {
		r := httptest.NewRequest(http.MethodGet, x.target, nil)
		r = r.WithContext(context.WithValue(r.Context(), outerKey{}, "outer"))
		ctx := r.Context()
		func() {
			defer func() { _ = recover() }()
			limit(mux).ServeHTTP(httptest.NewRecorder(), r)
		}()
		if r.Pattern != x.pattern || r.PathValue("id") != x.id || r.PathValue("rest") != x.rest {
			t.Errorf("%s: in front of the limiters the pattern is %q with id %q and rest %q, want %+v", x.target, r.Pattern, r.PathValue("id"), r.PathValue("rest"), x)
		}
		if r.Context() != ctx {
			t.Errorf("%s: the request in front of the limiters has another context", x.target)
		}
	}
}
