package migration_test

import (
	"net/http"
	"strconv"
	"testing"
	"time"

	"github.com/gin-gonic/gin"
	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/tokenbucket-go/ratelimit/benchmarks/migration"
	"github.com/tokenbucket-go/ratelimit/internal/redistest"
)

func ginWith(t *testing.T, limit func(*gin.Engine, *redis.Client) error, rdb *redis.Client) http.Handler {
	t.Helper()
	gin.SetMode(gin.TestMode)
	r := gin.New()
	require.NoError(t, limit(r, rdb))
	r.GET("/", func(c *gin.Context) { c.Status(http.StatusOK) })
	return r
}

func TestUlule(t *testing.T) {
	rdb := redistest.Client(t)
	for name, limit := range map[string]func(*gin.Engine, *redis.Client) error{"before": migration.UluleBefore, "after": migration.UluleAfter} {
		t.Run(name, func(t *testing.T) {
			h := ginWith(t, limit, rdb)
			tenant := redistest.Prefix()

			first := serve(h, 1, request("GET", "/", "192.0.2.1", "X-Tenant", tenant))
			has(t, first, "X-RateLimit-Limit", "X-RateLimit-Remaining", "X-RateLimit-Reset")
			lacks(t, first, "RateLimit", "RateLimit-Policy", "Retry-After")
			require.Equal(t, "10", first.last.Header().Get("X-RateLimit-Limit"))
			require.Equal(t, "9", first.last.Header().Get("X-RateLimit-Remaining"))
			reset, err := strconv.ParseInt(first.last.Header().Get("X-RateLimit-Reset"), 10, 64)
			require.NoError(t, err)
			until := time.Until(time.Unix(reset, 0))
			if name == "before" {
				require.InDelta(t, time.Minute, until, float64(3*time.Second), "X-RateLimit-Reset is the end of the window")
			} else {
				require.InDelta(t, 6*time.Second, until, float64(3*time.Second), "X-RateLimit-Reset is when the bucket is full")
			}

			rest := serve(h, 14, request("GET", "/", "192.0.2.1", "X-Tenant", tenant))
			require.Equal(t, map[int]int{200: 9, 429: 5}, rest.statuses)
			require.JSONEq(t, `{"error":"slow down"}`, rest.last.Body.String())
			if name == "before" {
				lacks(t, rest, "Retry-After")
			} else {
				has(t, rest, "Retry-After")
			}

			require.Equal(t, map[int]int{200: 1}, serve(h, 1, request("GET", "/", "192.0.2.2", "X-Tenant", tenant)).statuses,
				"another address has a bucket of its own")
			proxied := request("GET", "/", "10.0.0.7", "X-Tenant", tenant, "X-Forwarded-For", "192.0.2.1")
			require.Equal(t, map[int]int{429: 1}, serve(h, 1, proxied).statuses, "a proxy's client is the client")
			require.Equal(t, map[int]int{200: 1}, serve(h, 1, request("GET", "/", "2001:db8::"+strconv.FormatInt(time.Now().UnixMilli()&0xffff, 16))).statuses,
				"a request without a tenant is limited, not refused")
		})
	}
}

// Each address of IPv6 has a bucket before, each /64 after.
func TestUluleIPv6(t *testing.T) {
	rdb := redistest.Client(t)
	tenant := redistest.Prefix()
	for name, want := range map[string]map[int]int{"before": {200: 1}, "after": {429: 1}} {
		limit := migration.UluleBefore
		if name == "after" {
			limit = migration.UluleAfter
		}
		h := ginWith(t, limit, rdb)
		serve(h, 10, request("GET", "/", "[2001:db8::1]", "X-Tenant", tenant))
		require.Equal(t, want, serve(h, 1, request("GET", "/", "[2001:db8::2]", "X-Tenant", tenant)).statuses, name)
	}
}

// While Redis is away, ulule panics; after, this process limits alone.
func TestUluleWithoutRedis(t *testing.T) {
	rdb := redis.NewClient(&redis.Options{Addr: redistest.Addr(t), MaxRetries: -1})
	before, after := ginWith(t, migration.UluleBefore, rdb), ginWith(t, migration.UluleAfter, rdb)
	require.NoError(t, rdb.Close())
	require.Panics(t, func() { serve(before, 1, request("GET", "/", "192.0.2.1")) })
	require.Equal(t, map[int]int{200: 10, 429: 2}, serve(after, 12, request("GET", "/", "192.0.2.1")).statuses)
}
