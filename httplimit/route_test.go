package httplimit_test

import (
	"net/http"
	"net/http/httptest"
	"testing"

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
		t.Run(test.pattern+" "+test.method+" "+test.target, func(t *testing.T) {
			mux := http.NewServeMux()
			inside := "not reached"
			mux.HandleFunc(test.pattern, func(_ http.ResponseWriter, r *http.Request) { inside, _ = httplimit.ByRoute()(r) })
			r := httptest.NewRequest(test.method, test.target, nil)
			if got, err := httplimit.ByRouteOf(mux)(r); got != test.want || err != nil {
				t.Errorf("in front of the mux the key is %q, %v, want %q", got, err, test.want)
			}
			mux.ServeHTTP(httptest.NewRecorder(), r)
			if test.want != "route:" && inside != test.want {
				t.Errorf("inside the mux the key is %q, want %q", inside, test.want)
			}
		})
	}
}

// In front of an inner mux the pattern of the outer mux is already known.
// ByRouteOf still asks the inner one.
func TestByRouteOfAsksTheMuxItWasGiven(t *testing.T) {
	inner, outer := http.NewServeMux(), http.NewServeMux()
	inner.HandleFunc("/api/items/{id}", func(http.ResponseWriter, *http.Request) {})
	inner.HandleFunc("/api/other", func(http.ResponseWriter, *http.Request) {})
	key := httplimit.ByRouteOf(inner)
	var got string
	outer.HandleFunc("/api/", func(w http.ResponseWriter, r *http.Request) {
		got, _ = key(r)
		inner.ServeHTTP(w, r)
	})
	for target, want := range map[string]string{"/api/items/7": "route:/api/items/{id}", "/api/other": "route:/api/other"} {
		outer.ServeHTTP(httptest.NewRecorder(), httptest.NewRequest(http.MethodGet, target, nil))
		if got != want {
			t.Errorf("%s: the key is %q, want %q", target, got, want)
		}
	}
}
