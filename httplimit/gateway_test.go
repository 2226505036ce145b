package httplimit_test

import (
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/tokenbucket-go/ratelimit/core"
	"github.com/tokenbucket-go/ratelimit/httplimit"
	"github.com/tokenbucket-go/ratelimit/internal/limittest"
)

// docs/headers.md says so: the fields of both limits reach the client, and
// single-valued fields then have two values, unless ModifyResponse removes
// those of the upstream.
func TestFieldsOfGatewayAndUpstreamReachTheClient(t *testing.T) {
	limit := func(name string, perDay int64, h http.Handler) http.Handler {
		return httplimit.New(limittest.Limiter(t, core.NewMemoryStore(), name, core.PerDay(perDay)), httplimit.Global("all"))(h)
	}
	upstream := httptest.NewServer(limit("upstream", 50, http.HandlerFunc(func(http.ResponseWriter, *http.Request) {})))
	defer upstream.Close()
	to, err := url.Parse(upstream.URL)
	require.NoError(t, err)
	proxy := httputil.NewSingleHostReverseProxy(to)
	gateway := limit("gateway", 9, proxy)
	header := send(gateway, "GET", "/", nil).Header()
	assert.Equal(t, []string{"9", "50"}, header.Values("X-RateLimit-Limit"), "the gateway's and the upstream's")
	assert.Equal(t, []string{`"gateway";q=9;w=86400`, `"upstream";q=50;w=86400`}, header.Values("RateLimit-Policy"), "one member of each")
	proxy.ModifyResponse = func(res *http.Response) error {
		for name := range res.Header {
			if strings.Contains(name, "Ratelimit") {
				res.Header.Del(name)
			}
		}
		return nil
	}
	assert.Equal(t, []string{"9"}, send(gateway, "GET", "/", nil).Header().Values("X-RateLimit-Limit"), "only the gateway's")
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
	limit := func(next http.Handler) http.Handler {
		return httplimit.New(limittest.Limiter(t, core.NewMemoryStore(), "api", core.PerDay(1)), httplimit.ByIP())(next)
	}
	ok := http.HandlerFunc(func(http.ResponseWriter, *http.Request) {})
	for name, order := range map[string]struct {
		handler  http.Handler
		want     []int
		readable bool
	}{
		"CORS in front":        {cors(limit(ok)), []int{204, 200, 204, 429}, true},
		"the limiter in front": {limit(cors(ok)), []int{204, 429, 429, 429}, false},
	} {
		for i, method := range []string{http.MethodOptions, http.MethodGet, http.MethodOptions, http.MethodGet} {
			w := send(order.handler, method, "/", nil)
			assert.Equal(t, order.want[i], w.Code, "%s: request %d, %s", name, i, method)
			if w.Code == http.StatusTooManyRequests {
				assert.Equal(t, order.readable, w.Header().Get("Access-Control-Allow-Origin") != "", "%s: a script can read the 429", name)
			}
		}
	}
}
