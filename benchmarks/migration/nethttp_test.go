package migration_test

import (
	"net/http"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-chi/chi/v5"
	"github.com/stretchr/testify/require"

	"github.com/tokenbucket-go/ratelimit/benchmarks/migration"
)

func chiWith(limit func(chi.Router)) http.Handler {
	r := chi.NewRouter()
	limit(r)
	r.Get("/*", ok)
	return r
}

func TestHTTPRate(t *testing.T) {
	for name, limit := range map[string]func(chi.Router){"before": migration.HTTPRateBefore, "after": migration.HTTPRateAfter} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				h := chiWith(limit)
				client := request("GET", "/a", "10.0.0.7", "X-Forwarded-For", "192.0.2.1")
				s := serve(h, 12, client)
				require.Equal(t, map[int]int{200: 10, 429: 2}, s.statuses)
				has(t, s, "X-RateLimit-Limit", "X-RateLimit-Remaining", "X-RateLimit-Reset", "Retry-After")
				require.Equal(t, map[string]string{"before": "60", "after": "6"}[name], s.last.Header().Get("Retry-After"))
				require.Equal(t, 1, serve(h, 1, request("GET", "/b", "10.0.0.7", "X-Forwarded-For", "192.0.2.1")).statuses[200])
				require.Equal(t, 1, serve(h, 1, request("GET", "/a", "10.0.0.7", "X-Forwarded-For", "192.0.2.2")).statuses[200])

				time.Sleep(6 * time.Second)
				require.Equal(t, map[string]int{"before": 429, "after": 200}[name], serve(h, 1, client).last.Code,
					"a bucket has a token again after 6 s, a window none before its end")
			})
		})
	}
}

// In httprate, all requests without an address share a bucket. Here they are answered with 400.
func TestHTTPRateWithoutAnAddress(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		noAddress := func() *http.Request {
			r := request("GET", "/a", "192.0.2.1")()
			r.RemoteAddr = "@" // as on a Unix socket
			return r
		}
		require.Equal(t, map[int]int{200: 10, 429: 2}, serve(chiWith(migration.HTTPRateBefore), 12, noAddress).statuses)
		require.Equal(t, map[int]int{400: 12}, serve(chiWith(migration.HTTPRateAfter), 12, noAddress).statuses)
	})
}

func TestTollbooth(t *testing.T) {
	for name, limit := range map[string]func(http.Handler) http.Handler{"before": migration.TollboothBefore, "after": migration.TollboothAfter} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				h := limit(ok)
				post := request("POST", "/a", "10.0.0.7", "X-Forwarded-For", "192.0.2.1")
				s := serve(h, 22, post)
				require.Equal(t, map[int]int{200: 20, 429: 2}, s.statuses)
				require.Equal(t, "slow down", s.last.Body.String()[:9])
				if name == "before" {
					has(t, s, "RateLimit-Limit", "RateLimit-Remaining", "RateLimit-Reset", "X-Rate-Limit-Request-Remote-Addr",
						"X-Rate-Limit-Request-Forwarded-For")
					lacks(t, s, "Retry-After")
					require.Equal(t, "5", s.last.Header().Get("RateLimit-Limit"), "the rate")
				} else {
					has(t, s, "X-RateLimit-Limit", "RateLimit", "RateLimit-Policy", "Retry-After")
					require.Equal(t, "20", s.last.Header().Get("X-RateLimit-Limit"), "the capacity")
				}
				require.Equal(t, map[int]int{200: 30}, serve(h, 30, request("GET", "/a", "10.0.0.7", "X-Forwarded-For", "192.0.2.1")).statuses)
				require.Equal(t, 200, serve(h, 1, request("POST", "/b", "10.0.0.7", "X-Forwarded-For", "192.0.2.1")).last.Code)
				time.Sleep(time.Second)
				require.Equal(t, map[int]int{200: 5, 429: 1}, serve(h, 6, post).statuses, "5 a second")
			})
		})
	}
}

// tollbooth believes X-Forwarded-For of every peer, and does not limit requests without it.
func TestTollboothWithoutTheProxy(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		before, after := migration.TollboothBefore(ok), migration.TollboothAfter(ok)
		forge := func() func() *http.Request {
			n := 0
			return func() *http.Request {
				n++
				return request("POST", "/a", "192.0.2.66", "X-Forwarded-For", "192.0.2."+string(rune('0'+n%10)))()
			}
		}
		require.Equal(t, map[int]int{200: 40}, serve(before, 40, forge()).statuses)
		require.Equal(t, map[int]int{200: 20, 429: 20}, serve(after, 40, forge()).statuses)
		direct := request("POST", "/a", "192.0.2.67")
		require.Equal(t, map[int]int{200: 40}, serve(before, 40, direct).statuses)
		require.Equal(t, map[int]int{200: 20, 429: 20}, serve(after, 40, direct).statuses)
	})
}

func TestThrottled(t *testing.T) {
	for name, limit := range map[string]func(http.Handler) (http.Handler, error){"before": migration.ThrottledBefore, "after": migration.ThrottledAfter} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				h, err := limit(ok)
				require.NoError(t, err)
				key := request("GET", "/a", "192.0.2.1", "X-Api-Key", "k-1")
				s := serve(h, 8, key)
				require.Equal(t, map[int]int{200: 6, 429: 2}, s.statuses)
				require.Equal(t, "6", s.last.Header().Get("X-RateLimit-Limit"))
				require.Equal(t, "0", s.last.Header().Get("X-RateLimit-Remaining"))
				require.Equal(t, "3", s.last.Header().Get("Retry-After"))
				if name == "before" {
					require.Equal(t, "18", s.last.Header().Get("X-RateLimit-Reset"), "seconds")
				} else {
					require.Equal(t, time.Now().Add(18*time.Second).Unix(), unix(t, s.last.Header().Get("X-RateLimit-Reset")), "a Unix second")
				}
				require.Equal(t, 200, serve(h, 1, request("GET", "/b", "192.0.2.1", "X-Api-Key", "k-1")).last.Code)
				require.Equal(t, map[string]int{"before": 200, "after": 400}[name], serve(h, 1, request("GET", "/a", "192.0.2.1")).last.Code,
					"a request without a key")
				time.Sleep(3 * time.Second)
				require.Equal(t, map[int]int{200: 1, 429: 1}, serve(h, 2, key).statuses)
			})
		})
	}
}
