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

// TestOnePolicyTwiceIsWarnedOf: a middleware that is installed in a group and in a route charges each
// request twice. All adapters share the engine that sees it.
func TestOnePolicyTwiceIsWarnedOf(t *testing.T) {
	before := slog.Default()
	t.Cleanup(func() { slog.SetDefault(before) })
	var log bytes.Buffer
	slog.SetDefault(slog.New(slog.NewTextHandler(&log, nil)))

	store := core.NewMemoryStore()
	limiter := func(name string) *core.Limiter {
		return core.Must(core.NewLimiter(store, core.Policy{Name: name, Limits: []core.Limit{core.PerMinute(100)}}))
	}
	api := limiter("api")
	serve := func(middleware ...func(http.Handler) http.Handler) {
		var h http.Handler = http.HandlerFunc(func(http.ResponseWriter, *http.Request) {})
		for _, m := range middleware {
			h = m(h)
		}
		for range 3 {
			h.ServeHTTP(httptest.NewRecorder(), httptest.NewRequest(http.MethodGet, "/reports", nil))
		}
	}
	serve(httplimit.New(api, httplimit.Global("all")), httplimit.New(limiter("other"), httplimit.Global("all")))
	serve(httplimit.New(api, httplimit.Global("all")), httplimit.New(api, httplimit.ByIP()))
	if log.Len() > 0 {
		t.Errorf("other policies and other keys are nothing to warn of: %s", &log)
	}
	serve(httplimit.New(api, httplimit.Global("all")), httplimit.New(limiter("other"), httplimit.ByIP()), httplimit.New(api, httplimit.Global("all")))
	if got := log.String(); strings.Count(got, "charged twice") != 1 || !strings.Contains(got, "policy=api") || !strings.Contains(got, "/reports") {
		t.Errorf("a request that pays twice is warned of once, with policy and path; got %q", got)
	}
}
