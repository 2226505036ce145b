package httplimit_test

import (
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"slices"
	"testing"

	"github.com/tokenbucket-go/ratelimit/core"
	"github.com/tokenbucket-go/ratelimit/httplimit"
)

// docs/headers.md says so: the fields of both limits reach the client, and
// single-valued fields then have two values, unless ModifyResponse removes
// those of the upstream.
func TestFieldsOfGatewayAndUpstreamReachTheClient(t *testing.T) {
	limit := func(name string, perDay int64, h http.Handler) http.Handler {
		return httplimit.New(core.Must(core.NewLimiter(core.NewMemoryStore(), core.Policy{Name: name, Limits: []core.Limit{core.PerDay(perDay)}})), httplimit.Global("all"))(h)
	}
	upstream := httptest.NewServer(limit("upstream", 50, http.HandlerFunc(func(http.ResponseWriter, *http.Request) {})))
	defer upstream.Close()
	to, err := url.Parse(upstream.URL)
	if err != nil {
		t.Fatal(err)
	}
	proxy := httputil.NewSingleHostReverseProxy(to)
	gateway := httptest.NewServer(limit("gateway", 9, proxy))
	defer gateway.Close()
	get := func() http.Header {
		res, err := http.Get(gateway.URL)
		if err != nil {
			t.Fatal(err)
		}
		_ = res.Body.Close()
		return res.Header
	}
	h := get()
	if got := h.Values("X-RateLimit-Limit"); !slices.Equal(got, []string{"9", "50"}) {
		t.Errorf("X-RateLimit-Limit is %q, want the gateway's and the upstream's", got)
	}
	if got := h.Values("RateLimit-Policy"); !slices.Equal(got, []string{`"gateway";q=9;w=86400`, `"upstream";q=50;w=86400`}) {
		t.Errorf("RateLimit-Policy is %q, want one member of each", got)
	}
	proxy.ModifyResponse = func(res *http.Response) error {
		for _, name := range []string{"RateLimit", "RateLimit-Policy", "RateLimit-Limit", "RateLimit-Remaining", "RateLimit-Reset",
			"X-RateLimit-Limit", "X-RateLimit-Remaining", "X-RateLimit-Reset"} {
			res.Header.Del(name)
		}
		return nil
	}
	h = get()
	if got := h.Values("X-RateLimit-Limit"); !slices.Equal(got, []string{"9"}) {
		t.Errorf("X-RateLimit-Limit is %q, want only the gateway's", got)
	}
}

// docs/headers.md says so: with CORS in front, preflights take no tokens and a
// script can read a 429.
func TestCORSMustStandInFrontOfTheLimiter(t *testing.T) {
	cors := func(next http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Access-Control-Allow-Origin", "https://app.test")
			if r.Method == http.MethodOptions {
				w.WriteHeader(http.StatusNoContent)
				return
			}
			next.ServeHTTP(w, r)
		})
	}
	for _, order := range []struct {
		name    string
		inFront bool
		want    []int
		allowed bool
	}{{"CORS in front", true, []int{204, 200, 204, 429}, true}, {"the limiter in front", false, []int{204, 429, 429, 429}, false}} {
		t.Run(order.name, func(t *testing.T) {
			middleware := httplimit.New(core.Must(core.NewLimiter(core.NewMemoryStore(), core.Policy{Name: "api", Limits: []core.Limit{core.PerDay(1)}})), httplimit.ByIP())
			handler := http.Handler(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
			if order.inFront {
				handler = cors(middleware(handler))
			} else {
				handler = middleware(cors(handler))
			}
			for i, method := range []string{http.MethodOptions, http.MethodGet, http.MethodOptions, http.MethodGet} {
				rec := httptest.NewRecorder()
				handler.ServeHTTP(rec, httptest.NewRequest(method, "/", nil))
				if rec.Code != order.want[i] {
					t.Errorf("request %d, %s, was answered %d, want %d", i, method, rec.Code, order.want[i])
				}
				if rec.Code == http.StatusTooManyRequests && (rec.Header().Get("Access-Control-Allow-Origin") != "") != order.allowed {
					t.Errorf("request %d: a script can read the 429: %v, want %v", i, !order.allowed, order.allowed)
				}
			}
		})
	}
}
