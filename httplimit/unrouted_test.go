package httplimit_test

import (
	"bytes"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/tokenbucket-go/ratelimit/core"
	"github.com/tokenbucket-go/ratelimit/httplimit"
)

// TestByRouteInFrontOfAMuxIsWarnedOf: there no pattern is known, so all requests would share a bucket in silence.
func TestByRouteInFrontOfAMuxIsWarnedOf(t *testing.T) {
	before := slog.Default()
	t.Cleanup(func() { slog.SetDefault(before) })
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
		{"around a mux, nothing but 404", limit(httplimit.ByRoute())(mux), []string{"/nowhere"}, 0},
		{"with the mux", limit(httplimit.ByRoute(mux))(mux), []string{"/nowhere", "/items/1", "/items/2"}, 0},
		{"not asked", limit(httplimit.FirstOf(httplimit.ByIP(), httplimit.ByRoute()))(mux), []string{"/items/1"}, 0},
	} {
		t.Run(test.name, func(t *testing.T) {
			var log bytes.Buffer
			slog.SetDefault(slog.New(slog.NewTextHandler(&log, nil)))
			for _, path := range test.paths {
				test.handler.ServeHTTP(httptest.NewRecorder(), httptest.NewRequest(http.MethodGet, path, nil))
			}
			if n := strings.Count(log.String(), "httplimit.ByRoute(mux)"); n != test.want || test.want > 0 && !strings.Contains(log.String(), "/items/1") {
				t.Errorf("warned %d times, want %d, of the first item: %s", n, test.want, &log)
			}
		})
	}
}

// TestByRouteOfNoMux: a mux that is nil, or one too many, is a mistake.
func TestByRouteOfNoMux(t *testing.T) {
	limiter := core.Must(core.NewLimiter(core.NewMemoryStore(), core.Policy{Name: "api", Limits: []core.Limit{core.PerMinute(100)}}))
	for name, key := range map[string]httplimit.KeyFunc{
		"nil": httplimit.ByRoute(nil), "two": httplimit.ByRoute(http.NewServeMux(), http.NewServeMux()),
	} {
		func() {
			defer func() {
				if told := recover(); told == nil || !strings.Contains(told.(error).Error(), "ByRoute") {
					t.Errorf("%s: New must panic with the mistake, got %v", name, told)
				}
			}()
			httplimit.New(limiter, key)
		}()
	}
}
