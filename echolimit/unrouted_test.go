package echolimit_test

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/labstack/echo/v4"

	"github.com/tokenbucket-go/ratelimit/core"
	"github.com/tokenbucket-go/ratelimit/echolimit"
	"github.com/tokenbucket-go/ratelimit/internal/logtest"
)

// In e.Pre echo has not routed the request, so all requests share a bucket. A
// warning says so.
func TestByRouteInPreLogsAWarning(t *testing.T) {
	for name, test := range map[string]struct {
		install func(*echo.Echo, echo.MiddlewareFunc)
		want    int
	}{
		"Pre": {func(e *echo.Echo, m echo.MiddlewareFunc) { e.Pre(m) }, 1},
		"Use": {func(e *echo.Echo, m echo.MiddlewareFunc) { e.Use(m) }, 0},
	} {
		t.Run(name, func(t *testing.T) {
			limiter := core.Must(core.NewLimiter(core.NewMemoryStore(), core.Policy{Name: "api", Limits: []core.Limit{core.PerMinute(100)}}))
			e := echo.New()
			test.install(e, echolimit.New(limiter, echolimit.ByRoute()))
			e.GET("/items/:id", func(c echo.Context) error { return c.NoContent(http.StatusNoContent) })
			logged := logtest.Capture(func() {
				for _, path := range []string{"/nowhere", "/items/1", "/items/2"} {
					e.ServeHTTP(httptest.NewRecorder(), httptest.NewRequest(http.MethodGet, path, nil))
				}
			})
			if n := strings.Count(logged, "install the limiter with e.Use, not e.Pre"); n != test.want || n > 0 && !strings.Contains(logged, "/items/1") {
				t.Errorf("%d warnings, want %d: %s", n, test.want, logged)
			}
		})
	}
}
