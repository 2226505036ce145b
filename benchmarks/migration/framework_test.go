package migration_test

import (
	"net/http"
	"strconv"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gofiber/fiber/v2"
	"github.com/labstack/echo/v4"
	"github.com/stretchr/testify/require"

	"github.com/tokenbucket-go/ratelimit/benchmarks/migration"
)

// unix reads a Unix second.
func unix(t *testing.T, s string) int64 {
	t.Helper()
	n, err := strconv.ParseInt(s, 10, 64)
	require.NoError(t, err)
	return n
}

func TestEcho(t *testing.T) {
	for name, limit := range map[string]func(*echo.Echo){"before": migration.EchoBefore, "after": migration.EchoAfter} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				e := echo.New()
				var seen error // by middleware in front
				e.Use(func(next echo.HandlerFunc) echo.HandlerFunc {
					return func(c echo.Context) error {
						seen = next(c)
						return seen
					}
				})
				limit(e)
				for _, path := range []string{"/", "/healthz"} {
					e.GET(path, func(c echo.Context) error { return c.NoContent(http.StatusOK) })
				}
				client := request("GET", "/", "192.0.2.1")
				s := serve(e, 32, client)
				require.Equal(t, map[int]int{200: 30, 429: 2}, s.statuses)
				if name == "before" {
					lacks(t, s, "X-RateLimit-Limit", "RateLimit", "Retry-After")
					require.NoError(t, seen, "echo's own hands the denial to c.Error")
				} else {
					has(t, s, "X-RateLimit-Limit", "X-RateLimit-Remaining", "X-RateLimit-Reset", "RateLimit", "RateLimit-Policy", "Retry-After")
					var denial *echo.HTTPError
					require.ErrorAs(t, seen, &denial, "this library returns the denial")
					require.Equal(t, 429, denial.Code)
				}
				require.Equal(t, map[int]int{200: 40}, serve(e, 40, request("GET", "/healthz", "192.0.2.1")).statuses)
				require.Equal(t, 200, serve(e, 1, request("GET", "/", "192.0.2.2")).last.Code)
				time.Sleep(time.Second)
				require.Equal(t, map[int]int{200: 10, 429: 1}, serve(e, 11, client).statuses, "10 a second")
			})
		})
	}
}

// fiber's clock is a goroutine that never ends, so this test is in real time: a token takes 1.5 s.
func TestFiber(t *testing.T) {
	for name, limit := range map[string]func(*fiber.App){"before": migration.FiberBefore, "after": migration.FiberAfter} {
		t.Run(name, func(t *testing.T) {
			app := fiber.New()
			limit(app)
			app.Get("/", func(c *fiber.Ctx) error { return c.SendStatus(c.QueryInt("status", 200)) })
			get := func(path string, fields ...string) *http.Response {
				r := request("GET", path, "192.0.2.1", fields...)()
				resp, err := app.Test(r, -1)
				require.NoError(t, err)
				return resp
			}
			for range 25 {
				require.Equal(t, 500, get("/?status=500", "X-Api-Key", "k-1").StatusCode, "failed requests don't count")
			}
			fields := []string{"X-Ratelimit-Limit", "X-Ratelimit-Remaining", "X-Ratelimit-Reset"}
			statuses := map[int]int{}
			var last *http.Response
			for i := range 21 {
				last = get("/", "X-Api-Key", "k-1")
				statuses[last.StatusCode]++
				if i > 0 {
					continue
				}
				for _, f := range fields {
					require.NotEmpty(t, last.Header.Get(f), f)
				}
				reset := unix(t, last.Header.Get("X-Ratelimit-Reset"))
				if name == "before" {
					require.InDelta(t, 30, reset, 2, "seconds")
				} else {
					require.InDelta(t, time.Now().Add(1500*time.Millisecond).Unix(), reset, 2, "a Unix second")
				}
			}
			require.Equal(t, map[int]int{200: 20, 429: 1}, statuses)
			require.NotEmpty(t, last.Header.Get("Retry-After"))
			for _, f := range fields {
				require.Equal(t, name == "before", last.Header.Get(f) == "", "%s of a denial", f)
			}
			require.Equal(t, map[string]int{"before": 200, "after": 400}[name], get("/").StatusCode, "a request without a key")
		})
	}
}

// fiber's own limiter runs before the app's error handler, so it takes a returned error for a success.
func TestFiberReturnedErrors(t *testing.T) {
	for name, limit := range map[string]func(*fiber.App){"before": migration.FiberBefore, "after": migration.FiberAfter} {
		app := fiber.New()
		limit(app)
		app.Get("/", func(*fiber.Ctx) error { return fiber.NewError(http.StatusBadGateway) })
		statuses := map[int]int{}
		for range 22 {
			resp, err := app.Test(request("GET", "/", "192.0.2.1", "X-Api-Key", "k-1")(), -1)
			require.NoError(t, err)
			statuses[resp.StatusCode]++
		}
		require.Equal(t, map[string]map[int]int{"before": {502: 20, 429: 2}, "after": {502: 22}}[name], statuses, name)
	}
}

// Without an IPExtractor, echo takes the peer's address, as ByIP does: since v4.16.3 no longer that of X-Forwarded-For, which
// every client can set.
func TestEchoForgedAddress(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for name, limit := range map[string]func(*echo.Echo){"before": migration.EchoBefore, "after": migration.EchoAfter} {
			e := echo.New()
			limit(e)
			e.IPExtractor = nil
			e.GET("/", func(c echo.Context) error { return c.NoContent(http.StatusOK) })
			n := 0
			forged := func() *http.Request {
				n++
				return request("GET", "/", "192.0.2.1", "X-Forwarded-For", strconv.Itoa(n))()
			}
			require.Equal(t, map[int]int{200: 30, 429: 10}, serve(e, 40, forged).statuses, name)
		}
	})
}
