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

// Middleware that is installed in a group and in a route of it charges each request twice. All adapters share the engine
// that notices it.
func TestRequestChargedTwiceLogsAWarning(t *testing.T) {
	before := slog.Default()
	t.Cleanup(func() { slog.SetDefault(before) })
	var logged bytes.Buffer
	slog.SetDefault(slog.New(slog.NewTextHandler(&logged, nil)))

	store := core.NewMemoryStore()
	limiter := func(name string) *core.Limiter {
		return core.Must(core.NewLimiter(store, core.Policy{Name: name, Limits: []core.Limit{core.PerMinute(100)}}))
	}
	api := limiter("api")
	request := func(middleware ...func(http.Handler) http.Handler) {
		var h http.Handler = http.HandlerFunc(func(http.ResponseWriter, *http.Request) {})
		for _, m := range middleware {
			h = m(h)
		}
		for range 3 {
			h.ServeHTTP(httptest.NewRecorder(), httptest.NewRequest(http.MethodGet, "/reports", nil))
		}
	}
	request(httplimit.New(api, httplimit.Global("all")), httplimit.New(limiter("other"), httplimit.Global("all")))
	request(httplimit.New(api, httplimit.Global("all")), httplimit.New(api, httplimit.ByIP()))
	if logged.Len() > 0 {
		t.Errorf("other policies and other keys need no warning: %s", &logged)
	}
	request(httplimit.New(api, httplimit.Global("all")), httplimit.New(limiter("other"), httplimit.ByIP()), httplimit.New(api, httplimit.Global("all")))
	if got := logged.String(); strings.Count(got, "charged twice") != 1 || !strings.Contains(got, "policy=api") || !strings.Contains(got, "/reports") {
		t.Errorf("want one warning with policy and path; got %q", got)
	}
}
