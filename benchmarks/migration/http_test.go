package migration_test

import (
	"errors"
	"fmt"
	"maps"
	"net"
	"net/http"
	"net/http/httptest"
	"slices"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gin-gonic/gin"
	"github.com/go-chi/chi/v5"
	"github.com/gofiber/fiber/v2"
	"github.com/gofiber/fiber/v2/middleware/adaptor"
	"github.com/labstack/echo/v4"
	"github.com/labstack/echo/v4/middleware"
	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/tokenbucket-go/ratelimit/benchmarks/migration"
	"github.com/tokenbucket-go/ratelimit/core"
	"github.com/tokenbucket-go/ratelimit/echolimit"
	"github.com/tokenbucket-go/ratelimit/internal/redistest"
)

// A step sends n requests to the code before and to the code after, and has
// what each answers: how many requests with which status, and fields of the
// last response.
type step struct {
	n             int
	request       func(i int) *http.Request
	show          string // names of header fields
	before, after string
}

// ask returns requests from an address. Fields are "Name: value"; # is the
// number of the request.
func ask(method, path, from string, fields ...string) func(i int) *http.Request {
	return func(i int) *http.Request {
		r := httptest.NewRequest(method, path, nil)
		if r.RemoteAddr = from; from != "@" {
			r.RemoteAddr = net.JoinHostPort(from, "1234")
		}
		for _, field := range fields {
			name, value, _ := strings.Cut(field, ": ")
			r.Header.Set(name, strings.ReplaceAll(value, "#", strconv.Itoa(i)))
		}
		return r
	}
}

// forge returns requests from one address that each name another one.
func forge(method, path string) func(i int) *http.Request {
	return ask(method, path, "192.0.2.66", "X-Forwarded-For: 198.51.100.#")
}

// answers writes what h answers, such as "10×200 2×429 Retry-After=60". A Unix
// second is written as "Unix".
func answers(h http.Handler, s step) string {
	statuses := map[int]int{}
	var last *httptest.ResponseRecorder
	for i := range s.n {
		last = httptest.NewRecorder()
		h.ServeHTTP(last, s.request(i))
		statuses[last.Code]++
	}
	var said []string
	for _, status := range slices.Sorted(maps.Keys(statuses)) {
		said = append(said, fmt.Sprintf("%d×%d", statuses[status], status))
	}
	for name := range strings.FieldsSeq(s.show) {
		value := last.Header().Get(name)
		if n, err := strconv.Atoi(value); err == nil && n > 100_000_000 {
			value = "Unix"
		}
		said = append(said, name+"="+value)
	}
	return strings.Join(said, " ")
}

func compare(t *testing.T, before, after http.Handler, steps []step) {
	t.Helper()
	for i, s := range steps {
		require.Equal(t, s.before, answers(before, s), "step %d, before", i)
		require.Equal(t, s.after, answers(after, s), "step %d, after", i)
	}
}

var ok = http.HandlerFunc(func(http.ResponseWriter, *http.Request) {})

func ginWith(t *testing.T, limit func(*gin.Engine, *redis.Client) error, rdb *redis.Client) http.Handler {
	t.Helper()
	gin.SetMode(gin.TestMode)
	r := gin.New()
	require.NoError(t, limit(r, rdb))
	r.GET("/", func(*gin.Context) {})
	return r
}

func TestUlule(t *testing.T) {
	rdb := redistest.Start(t).Client(t)
	compare(t, ginWith(t, migration.UluleBefore, rdb), ginWith(t, migration.UluleAfter, rdb), []step{
		{
			15, ask("GET", "/", "192.0.2.1", "X-Tenant: a"), "X-RateLimit-Limit X-RateLimit-Reset",
			"10×200 5×429 X-RateLimit-Limit=10 X-RateLimit-Reset=Unix",
			"10×200 5×429 X-RateLimit-Limit=10 X-RateLimit-Reset=Unix",
		},
		{1, ask("GET", "/", "192.0.2.2", "X-Tenant: a"), "", "1×200", "1×200"},
		{1, ask("GET", "/", "10.0.0.7", "X-Tenant: a", "X-Forwarded-For: 192.0.2.1"), "", "1×429", "1×429"},
		{10, ask("GET", "/", "2001:db8::1"), "", "10×200", "10×200"}, // without a tenant
		{1, ask("GET", "/", "2001:db8::2"), "", "1×200", "1×429"},    // a bucket for each address; for each /64
	})
}

// While Redis is away, ulule panics; after, this process limits alone.
func TestUluleWithoutRedis(t *testing.T) {
	rdb := redis.NewClient(&redis.Options{Addr: redistest.Addr(t), MaxRetries: -1})
	before, after := ginWith(t, migration.UluleBefore, rdb), ginWith(t, migration.UluleAfter, rdb)
	require.NoError(t, rdb.Close())
	request := ask("GET", "/", "192.0.2.1")
	require.Panics(t, func() { answers(before, step{n: 1, request: request}) })
	require.Equal(t, "10×200 2×429", answers(after, step{n: 12, request: request}))
}

func TestHTTPRate(t *testing.T) {
	app := func(limit func(chi.Router)) http.Handler {
		r := chi.NewRouter()
		limit(r)
		r.Get("/*", ok)
		return r
	}
	synctest.Test(t, func(t *testing.T) {
		before, after := app(migration.HTTPRateBefore), app(migration.HTTPRateAfter)
		client := ask("GET", "/a", "10.0.0.7", "X-Forwarded-For: 192.0.2.1")
		compare(t, before, after, []step{
			{
				12, client, "X-RateLimit-Limit Retry-After",
				"10×200 2×429 X-RateLimit-Limit=10 Retry-After=60",
				"10×200 2×429 X-RateLimit-Limit=10 Retry-After=6",
			},
			{1, ask("GET", "/b", "10.0.0.7", "X-Forwarded-For: 192.0.2.1"), "", "1×200", "1×200"},
			{12, ask("GET", "/a", "@"), "", "10×200 2×429", "12×400"}, // as on a Unix socket
		})
		time.Sleep(6 * time.Second)
		compare(t, before, after, []step{{2, client, "", "2×429", "1×200 1×429"}})
	})
}

func TestTollbooth(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		before, after := migration.TollboothBefore(ok), migration.TollboothAfter(ok)
		post := ask("POST", "/a", "10.0.0.7", "X-Forwarded-For: 192.0.2.1")
		compare(t, before, after, []step{
			{
				22, post, "RateLimit-Limit RateLimit-Reset X-RateLimit-Limit Retry-After",
				"20×200 2×429 RateLimit-Limit=5 RateLimit-Reset=1 X-RateLimit-Limit= Retry-After=",
				"20×200 2×429 RateLimit-Limit= RateLimit-Reset= X-RateLimit-Limit=20 Retry-After=1",
			},
			{30, ask("GET", "/a", "10.0.0.7", "X-Forwarded-For: 192.0.2.1"), "", "30×200", "30×200"},
			{1, ask("POST", "/b", "10.0.0.7", "X-Forwarded-For: 192.0.2.1"), "", "1×200", "1×200"},
			{40, forge("POST", "/a"), "", "40×200", "20×200 20×429"},
			{40, ask("POST", "/a", "192.0.2.67"), "", "40×200", "20×200 20×429"},
		})
		time.Sleep(time.Second)
		compare(t, before, after, []step{{6, post, "", "5×200 1×429", "5×200 1×429"}})
	})
}

func TestThrottled(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		before, err := migration.ThrottledBefore(ok)
		require.NoError(t, err)
		after, err := migration.ThrottledAfter(ok)
		require.NoError(t, err)
		key := ask("GET", "/a", "192.0.2.1", "X-Api-Key: k-1")
		compare(t, before, after, []step{
			{
				8, key, "X-RateLimit-Limit X-RateLimit-Reset Retry-After",
				"6×200 2×429 X-RateLimit-Limit=6 X-RateLimit-Reset=18 Retry-After=3",
				"6×200 2×429 X-RateLimit-Limit=6 X-RateLimit-Reset=Unix Retry-After=3",
			},
			{1, ask("GET", "/a", "192.0.2.1"), "", "1×200", "1×400"}, // without a key
		})
		time.Sleep(3 * time.Second)
		compare(t, before, after, []step{{2, key, "", "1×200 1×429", "1×200 1×429"}})
	})
}

// echoWith also returns the error that middleware in front sees.
func echoWith(limit func(*echo.Echo)) (h http.Handler, seen *error) {
	e, seen := echo.New(), new(error)
	e.Use(func(next echo.HandlerFunc) echo.HandlerFunc {
		return func(c echo.Context) error {
			*seen = next(c)
			return *seen
		}
	})
	limit(e)
	e.GET("/", func(echo.Context) error { return nil })
	e.GET("/healthz", func(echo.Context) error { return nil })
	return e, seen
}

func TestEcho(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		before, seenBefore := echoWith(migration.EchoBefore)
		after, seenAfter := echoWith(migration.EchoAfter)
		compare(t, before, after, []step{
			{
				32, ask("GET", "/", "192.0.2.1"), "X-RateLimit-Limit Retry-After",
				"30×200 2×429 X-RateLimit-Limit= Retry-After=",
				"30×200 2×429 X-RateLimit-Limit=30 Retry-After=1",
			},
		})
		require.NoError(t, *seenBefore, "echo's own hands the denial to c.Error")
		var denial *echo.HTTPError
		require.ErrorAs(t, *seenAfter, &denial, "this library returns the denial")
		compare(t, before, after, []step{
			{40, ask("GET", "/healthz", "192.0.2.1"), "", "40×200", "40×200"},
			{40, forge("GET", "/"), "", "30×200 10×429", "30×200 10×429"},
		})
	})
}

func TestEchoErrorsOfTheKey(t *testing.T) {
	for _, c := range []struct {
		err           error
		before, after string
	}{
		{errors.New("no session"), "1×403", "1×500"},
		{core.ErrNoKey, "1×403", "1×400"},
		{echo.NewHTTPError(http.StatusUnauthorized), "1×401", "1×401"},
	} {
		key := func(echo.Context) (string, error) { return "", c.err }
		before, _ := echoWith(func(e *echo.Echo) {
			e.Use(middleware.RateLimiterWithConfig(middleware.RateLimiterConfig{
				Store: middleware.NewRateLimiterMemoryStore(10), IdentifierExtractor: key,
			}))
		})
		limiter := core.Must(core.NewLimiter(core.NewMemoryStore(), core.Policy{
			Name: "api", Limits: []core.Limit{core.PerSecond(10)},
		}))
		after, _ := echoWith(func(e *echo.Echo) { e.Use(echolimit.New(limiter, key)) })
		compare(t, before, after, []step{{1, ask("GET", "/", "192.0.2.1"), "", c.before, c.after}})
	}
}

// fiber's clock is a goroutine that never ends, so this test is in real time. A
// token takes 90 s.
func TestFiber(t *testing.T) {
	app := func(limit func(*fiber.App)) http.Handler {
		a := fiber.New()
		limit(a)
		a.Get("/", func(c *fiber.Ctx) error { return c.SendStatus(200) })
		a.Get("/answers-500", func(c *fiber.Ctx) error { return c.SendStatus(500) })
		a.Get("/returns-502", func(*fiber.Ctx) error { return fiber.NewError(http.StatusBadGateway) })
		return adaptor.FiberApp(a)
	}
	get := func(path string, fields ...string) func(int) *http.Request {
		return ask("GET", path, "192.0.2.1", fields...)
	}
	compare(t, app(migration.FiberBefore), app(migration.FiberAfter), []step{
		{25, get("/answers-500", "X-Api-Key: k-1"), "", "25×500", "25×500"}, // failed requests don't count
		{
			1, get("/", "X-Api-Key: k-1"), "X-RateLimit-Reset",
			"1×200 X-RateLimit-Reset=1800",
			"1×200 X-RateLimit-Reset=Unix",
		},
		{
			20, get("/", "X-Api-Key: k-1"), "X-RateLimit-Reset",
			"19×200 1×429 X-RateLimit-Reset=",
			"19×200 1×429 X-RateLimit-Reset=Unix",
		},
		{
			22, get("/returns-502", "X-Api-Key: k-2"), "",
			"2×429 20×502",
			"22×502",
		}, // fiber's own takes a returned error for a success
		{1, get("/"), "", "1×200", "1×400"}, // without a key
	})
}
