package echolimit_test

import (
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"

	"github.com/labstack/echo/v5"
	"github.com/labstack/echo/v5/middleware"

	"github.com/tokenbucket-go/ratelimit/core"
	"github.com/tokenbucket-go/ratelimit/echolimit/v5"
	"github.com/tokenbucket-go/ratelimit/internal/limittest"
)

// opaque is a writer without Unwrap, so it hides the writer that it wraps.
type opaque struct{ w http.ResponseWriter }

func (o opaque) Header() http.Header         { return o.w.Header() }
func (o opaque) Write(b []byte) (int, error) { return o.w.Write(b) }
func (o opaque) WriteHeader(status int)      { o.w.WriteHeader(status) }

// hiding is middleware that puts the response into a writer without Unwrap.
func hiding(next echo.HandlerFunc) echo.HandlerFunc {
	return func(c *echo.Context) error {
		w := c.Response()
		c.SetResponse(opaque{w})
		defer c.SetResponse(w)
		return next(c)
	}
}

var gzip = middleware.GzipWithConfig(middleware.GzipConfig{MinLength: 1000})

// In echo v5 middleware in front may wrap the response writer and hold the
// answer back until it returns. WithRefund must get the status that the client
// gets, or not be reported.
func TestRefundWithWrappedResponseWriters(t *testing.T) {
	passing := echo.WrapMiddleware(func(h http.Handler) http.Handler { return h })
	both := func(next echo.HandlerFunc) echo.HandlerFunc { return gzip(passing(next)) }
	nothing := func(next echo.HandlerFunc) echo.HandlerFunc { return next }
	answer := func(status int, body string) echo.HandlerFunc {
		return func(c *echo.Context) error { return c.String(status, body) }
	}
	empty := func(c *echo.Context) error { return c.NoContent(http.StatusUnauthorized) }
	failing := func(*echo.Context) error { return echo.ErrUnauthorized }
	silent := func(*echo.Context) error { return nil }
	for _, test := range []refund{
		{name: "gzip, no body", front: gzip, handler: empty, code: 401},
		{name: "gzip, a short body", front: gzip, handler: answer(401, "no"), code: 401},
		{name: "gzip, a long body", front: gzip, handler: answer(401, strings.Repeat("no", 1000)), code: 401},
		{name: "gzip, an error", front: gzip, handler: failing, code: 401},
		{name: "gzip, nothing written, not called", front: gzip, handler: silent, code: 200, reported: []int{}},
		{name: "net/http middleware", front: passing, handler: empty, code: 401},
		{name: "net/http middleware, an error", front: passing, handler: failing, code: 401},
		{name: "net/http middleware, nothing written", front: passing, handler: silent, code: 200},
		{name: "a writer without Unwrap, not called", front: hiding, handler: empty, code: 401, reported: []int{}},
		{name: "net/http middleware behind gzip", front: both, handler: empty, code: 401},
		{name: "net/http middleware behind gzip, a body", front: both, handler: answer(401, "no"), code: 401},
		{name: "net/http middleware behind gzip, an error", front: both, handler: failing, code: 401},
		{name: "net/http middleware behind", front: nothing, handler: passing(empty), code: 401},
		{name: "net/http middleware behind, nothing written", front: nothing, handler: passing(silent), code: 200},
		{name: "net/http middleware behind, an error", front: nothing, handler: passing(failing), code: 401},
	} {
		test.refunds = test.code
		t.Run(test.name, test.run)
	}
}

// Echo answers HEAD with the handler of GET, through a writer that holds the
// answer back until the middleware of the route has returned.
func TestRefundGetsTheStatusOfHEAD(t *testing.T) {
	var reported []int
	e := echo.NewWithConfig(echo.Config{Router: echo.NewRouter(echo.RouterConfig{AutoHandleHEAD: true})})
	limiter := limittest.Limiter(t, core.NewMemoryStore(), "test", core.PerDay(5))
	e.GET("/", func(c *echo.Context) error { return c.String(http.StatusUnauthorized, "no") },
		echolimit.New(limiter, echolimit.Global("all"), echolimit.WithRefund(func(_ *echo.Context, status int) bool {
			reported = append(reported, status)
			return false
		})))
	rec := httptest.NewRecorder()
	e.ServeHTTP(rec, httptest.NewRequest(http.MethodHead, "/", nil))
	if rec.Code != http.StatusUnauthorized || !slices.Equal(reported, []int{http.StatusUnauthorized}) {
		t.Errorf("the client got %d, WithRefund was called with %v; want 401 for both", rec.Code, reported)
	}
}

// A settle function gets the status that the handler wrote, although gzip in
// front of the limiter still holds it back.
func TestSettleBehindGzipGetsTheStatus(t *testing.T) {
	for _, status := range []int{http.StatusOK, http.StatusNoContent, http.StatusUnauthorized} {
		var seen []int
		e := echo.New()
		limiter := limittest.Limiter(t, core.NewMemoryStore(), "test", core.PerDay(5))
		e.Use(gzip, echolimit.New(limiter, echolimit.Global("all"), echolimit.WithSettle(func(_ *echo.Context, status int) core.Units {
			seen = append(seen, status)
			return nil
		})))
		e.GET("/", func(c *echo.Context) error {
			if status == http.StatusNoContent {
				return c.NoContent(status)
			}
			return c.String(status, "short")
		})
		request, rec := httptest.NewRequest(http.MethodGet, "/", nil), httptest.NewRecorder()
		request.Header.Set("Accept-Encoding", "gzip")
		e.ServeHTTP(rec, request)
		if rec.Code != status || !slices.Equal(seen, []int{status}) {
			t.Errorf("the client got %d, and the settle function %v, want %d once", rec.Code, seen, status)
		}
	}
}
