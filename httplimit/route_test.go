package httplimit_test

import (
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/tokenbucket-go/ratelimit/httplimit"
)

func TestByRouteIsThePatternWithoutItsMethod(t *testing.T) {
	for _, test := range []struct{ pattern, method, target, want string }{
		{"/items/{id}", "GET", "/items/7", "route:/items/{id}"},
		{"GET /items/{id}", "GET", "/items/7", "route:/items/{id}"},
		{"GET\t /items/{id}", "GET", "/items/7", "route:/items/{id}"},
		{"GET example.com/items/{id}", "GET", "/items/7", "route:example.com/items/{id}"},
		{"/items/{rest...}", "POST", "/items/7/8", "route:/items/{rest...}"},
		{"/items/{$}", "GET", "/items/", "route:/items/{$}"},
		{"GET /items/{id}", "HEAD", "/items/7", "route:/items/{id}"},
		{"GET /items/{id}", "GET", "/other", "route:"},
		{"GET /items/{id}", "POST", "/items/7", "route:"},
	} {
		mux := http.NewServeMux()
		inside := "route:" // if it is not reached
		mux.HandleFunc(test.pattern, func(_ http.ResponseWriter, r *http.Request) { inside, _ = httplimit.ByRoute()(r) })
		r := httptest.NewRequest(test.method, test.target, nil)
		got, err := httplimit.ByRouteOf(mux)(r)
		assert.NoError(t, err)
		assert.Equal(t, test.want, got, "in front of the mux: %+v", test)
		mux.ServeHTTP(httptest.NewRecorder(), r)
		assert.Equal(t, test.want, inside, "inside the mux: %+v", test)
	}
}

// In front of an inner mux the pattern of the outer mux is already known.
// ByRouteOf still asks the inner one.
func TestByRouteOfAsksTheMuxItWasGiven(t *testing.T) {
	inner, outer := http.NewServeMux(), http.NewServeMux()
	inner.HandleFunc("/api/items/{id}", func(http.ResponseWriter, *http.Request) {})
	key := httplimit.ByRouteOf(inner)
	var got string
	outer.HandleFunc("/api/", func(_ http.ResponseWriter, r *http.Request) { got, _ = key(r) })
	send(outer, "GET", "/api/items/7", nil)
	assert.Equal(t, "route:/api/items/{id}", got)
}
