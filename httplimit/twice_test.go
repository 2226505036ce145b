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

// Middleware that is installed in a group and in a route of it charges each
// request twice. All adapters share the engine that notices it.
func TestRequestChargedTwiceLogsAWarning(t *testing.T) {
	store := core.NewMemoryStore()
	limiter := func(name string) *core.Limiter {
		return core.Must(core.NewLimiter(store, core.Policy{Name: name, Limits: []core.Limit{core.PerMinute(100)}}))
	}
	api := limiter("api")
	logged := func(middleware ...func(http.Handler) http.Handler) string {
		var h http.Handler = http.HandlerFunc(func(http.ResponseWriter, *http.Request) {})
		for _, m := range middleware {
			h = m(h)
		}
		return logtest.Capture(func() {
			for range 3 {
				h.ServeHTTP(httptest.NewRecorder(), httptest.NewRequest(http.MethodGet, "/reports", nil))
			}
		})
	}
	if got := logged(httplimit.New(api, httplimit.Global("all")), httplimit.New(limiter("other"), httplimit.Global("all"))); got != "" {
		t.Errorf("another policy needs no warning: %s", got)
	}
	if got := logged(httplimit.New(api, httplimit.Global("all")), httplimit.New(api, httplimit.ByIP())); got != "" {
		t.Errorf("another key needs no warning: %s", got)
	}
	got := logged(httplimit.New(api, httplimit.Global("all")), httplimit.New(limiter("other"), httplimit.ByIP()), httplimit.New(api, httplimit.Global("all")))
	if strings.Count(got, "charged twice") != 1 || !strings.Contains(got, "policy=api") || !strings.Contains(got, "/reports") {
		t.Errorf("want one warning with policy and path; got %q", got)
	}
}

// A middleware decides a request once, however often the request passes it: a
// framework may route it again. All adapters share the engine that knows.
func TestAMiddlewareDecidesARequestOnce(t *testing.T) {
	limiter := core.Must(core.NewLimiter(core.NewMemoryStore(), core.Policy{Name: "api", Limits: []core.Limit{core.PerDay(2)}}))
	for name, m := range map[string]func(http.Handler) http.Handler{
		"New":         httplimit.New(limiter, httplimit.Global("new")),
		"NewTogether": httplimit.NewTogether([]httplimit.Rule{{Limiter: limiter, Key: httplimit.Global("a")}, {Limiter: limiter, Key: httplimit.Global("b")}}),
	} {
		h := m(httplimit.New(limiter, httplimit.Global("between "+name))(m(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))))
		log := logtest.Capture(func() {
			for i, want := range []int{200, 200, 429} {
				w := httptest.NewRecorder()
				h.ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/", nil))
				if w.Code != want {
					t.Errorf("%s: request %d of a limit of 2 was answered %d, want %d", name, i+1, w.Code, want)
				}
			}
		})
		if log != "" {
			t.Errorf("%s: nothing is charged twice, but it logged %s", name, log)
		}
	}
}
