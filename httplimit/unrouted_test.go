package httplimit_test

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/tokenbucket-go/ratelimit/core"
	"github.com/tokenbucket-go/ratelimit/httplimit"
	"github.com/tokenbucket-go/ratelimit/internal/logtest"
)

// In front of the mux ByRoute finds no pattern, so all requests share a bucket.
// A warning says so.
func TestByRouteInFrontOfAMuxLogsAWarning(t *testing.T) {
	mux := http.NewServeMux()
	mux.HandleFunc("/items/{id}", func(http.ResponseWriter, *http.Request) {})
	limit := func(key httplimit.KeyFunc) func(http.Handler) http.Handler {
		return httplimit.New(core.Must(core.NewLimiter(core.NewMemoryStore(), core.Policy{Name: "api", Limits: []core.Limit{core.PerMinute(100)}})), key)
	}
	for _, test := range []struct {
		name    string
		handler http.Handler
		paths   []string
		want    int
	}{
		{"around a mux", limit(httplimit.ByRoute())(mux), []string{"/nowhere", "/items/1", "/items/2"}, 1},
		{"joined, around a mux", limit(httplimit.Join(httplimit.ByMethod(), httplimit.ByRoute()))(mux), []string{"/items/1", "/items/2"}, 1},
		{"around a mux, only 404", limit(httplimit.ByRoute())(mux), []string{"/nowhere"}, 0},
		{"with the mux", limit(httplimit.ByRouteOf(mux))(mux), []string{"/nowhere", "/items/1", "/items/2"}, 0},
		{"ByRoute is not called", limit(httplimit.FirstOf(httplimit.ByIP(), httplimit.ByRoute()))(mux), []string{"/items/1"}, 0},
	} {
		t.Run(test.name, func(t *testing.T) {
			logged := logtest.Capture(func() {
				for _, path := range test.paths {
					test.handler.ServeHTTP(httptest.NewRecorder(), httptest.NewRequest(http.MethodGet, path, nil))
				}
			})
			if n := strings.Count(logged, "httplimit.ByRouteOf(mux)"); n != test.want || test.want > 0 && !strings.Contains(logged, "/items/1") {
				t.Errorf("%d warnings, want %d, for the first item: %s", n, test.want, logged)
			}
		})
	}
}

func TestByRouteOfANilMuxPanics(t *testing.T) {
	limiter := core.Must(core.NewLimiter(core.NewMemoryStore(), core.Policy{Name: "api", Limits: []core.Limit{core.PerMinute(100)}}))
	defer func() {
		if err, _ := recover().(error); err == nil || !strings.Contains(err.Error(), "ByRouteOf mux: <nil> must be the mux") {
			t.Errorf("New must panic with the mistake, got %v", err)
		}
	}()
	httplimit.New(limiter, httplimit.ByRouteOf(nil))
}
