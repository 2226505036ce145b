package echolimit_test

import (
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/labstack/echo/v4"

	"github.com/tokenbucket-go/ratelimit/core"
	"github.com/tokenbucket-go/ratelimit/echolimit"
)

var errNotFound = errors.New("no such row")

// TestRefundStatus: in echo the error handler has the last word on the status, and that is the one
// WithRefund must go by.
func TestRefundStatus(t *testing.T) {
	mapping := func(err error, c echo.Context) {
		if errors.Is(err, errNotFound) {
			_ = c.NoContent(http.StatusNotFound)
			return
		}
		c.Echo().DefaultHTTPErrorHandler(err, c)
	}
	for _, test := range []struct {
		name    string
		handler func(echo.Context) error
		errors  echo.HTTPErrorHandler
	}{
		{"an answer", func(c echo.Context) error { return c.NoContent(http.StatusAccepted) }, nil},
		{"an HTTP error", func(echo.Context) error { return echo.ErrUnauthorized }, nil},
		{"any error", func(echo.Context) error { return errNotFound }, nil},
		{"an error after an answer", func(c echo.Context) error { _ = c.NoContent(http.StatusAccepted); return errNotFound }, nil},
		{"an HTTP error that wraps another", func(echo.Context) error { return echo.ErrUnauthorized.WithInternal(echo.ErrForbidden) }, nil},
		{"a wrapped HTTP error", func(echo.Context) error { return fmt.Errorf("login: %w", echo.ErrUnauthorized) }, nil},
		{"an error that the app's error handler maps", func(echo.Context) error { return errNotFound }, mapping},
		{"an error answered early", func(c echo.Context) error { c.Error(errNotFound); return nil }, mapping},
	} {
		t.Run(test.name, func(t *testing.T) {
			limiter := core.Must(core.NewLimiter(core.NewMemoryStore(), core.Policy{Name: "test", Limits: []core.Limit{core.PerDay(5)}}))
			asked := 0
			e := echo.New()
			if test.errors != nil {
				e.HTTPErrorHandler = test.errors
			}
			e.GET("/", test.handler, echolimit.New(limiter, echolimit.Global("all"),
				echolimit.WithRefund(func(_ echo.Context, status int) bool { asked = status; return false })))
			rec := httptest.NewRecorder()
			e.ServeHTTP(rec, httptest.NewRequest(http.MethodGet, "/", nil))
			if rec.Code != asked {
				t.Errorf("the client got %d, but WithRefund was asked about %d", rec.Code, asked)
			}
		})
	}
}
