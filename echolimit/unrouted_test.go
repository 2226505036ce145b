package echolimit_test

import (
	"bytes"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/labstack/echo/v4"

	"github.com/tokenbucket-go/ratelimit/core"
	"github.com/tokenbucket-go/ratelimit/echolimit"
)

// In e.Pre echo has not routed the request, so all requests share a bucket. A warning says so.
func TestByRouteInPreLogsAWarning(t *testing.T) {
	before := slog.Default()
	t.Cleanup(func() { slog.SetDefault(before) })
	for name, test := range map[string]struct {
		install func(*echo.Echo, echo.MiddlewareFunc)
		want    int
	}{
		"Pre": {func(e *echo.Echo, m echo.MiddlewareFunc) { e.Pre(m) }, 1},
		"Use": {func(e *echo.Echo, m echo.MiddlewareFunc) { e.Use(m) }, 0},
	} {
		t.Run(name, func(t *testing.T) {
			var logged bytes.Buffer
			slog.SetDefault(slog.New(slog.NewTextHandler(&logged, nil)))
			limiter := core.Must(core.NewLimiter(core.NewMemoryStore(), core.Policy{Name: "api", Limits: []core.Limit{core.PerMinute(100)}}))
			e := echo.New()
			test.install(e, echolimit.New(limiter, echolimit.ByRoute()))
			e.GET("/items/:id", func(c echo.Context) error { return c.NoContent(http.StatusNoContent) })
			for _, path := range []string{"/nowhere", "/items/1", "/items/2"} {
				e.ServeHTTP(httptest.NewRecorder(), httptest.NewRequest(http.MethodGet, path, nil))
			}
			if n := strings.Count(logged.String(), "install the limiter with e.Use, not e.Pre"); n != test.want || n > 0 && !strings.Contains(logged.String(), "/items/1") {
				t.Errorf("%d warnings, want %d: %s", n, test.want, &logged)
			}
		})
	}
}
