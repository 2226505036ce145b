package echolimit_test

import (
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"testing"

	"github.com/labstack/echo/v4"

	"github.com/tokenbucket-go/ratelimit/core"
	"github.com/tokenbucket-go/ratelimit/echolimit"
)

var errNotFound = errors.New("no such row")

// In echo the app's error handler decides the status. WithRefund must get that
// status.
func TestRefundGetsTheStatusOfTheErrorHandler(t *testing.T) {
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
			reported := 0
			e := echo.New()
			if test.errors != nil {
				e.HTTPErrorHandler = test.errors
			}
			e.GET("/", test.handler, echolimit.New(limiter, echolimit.Global("all"),
				echolimit.WithRefund(func(_ echo.Context, status int) bool { reported = status; return false })))
			rec := httptest.NewRecorder()
			e.ServeHTTP(rec, httptest.NewRequest(http.MethodGet, "/", nil))
			if rec.Code != reported {
				t.Errorf("the client got %d, but WithRefund was called with %d", rec.Code, reported)
			}
		})
	}
}

// Middleware in front of the limiter may change the status. WithRefund must get
// the status that the client gets.
func TestRefundGetsTheStatusOfMiddlewareInFront(t *testing.T) {
	pass := func(_ echo.Context, err error) error { return err }
	dropping := func(echo.Context, error) error { return nil }
	answering := func(status int) func(echo.Context, error) error {
		return func(c echo.Context, _ error) error {
			if committed(c) {
				return nil
			}
			return c.NoContent(status)
		}
	}
	failing := func(echo.Context) error { return errNotFound }
	silent := func(echo.Context) error { return nil }
	writing := func(c echo.Context) error { return c.NoContent(http.StatusAccepted) }
	for _, test := range []struct {
		name     string
		handler  func(echo.Context) error
		front    func(echo.Context, error) error
		refunds  int // the status that WithRefund refunds
		code     int
		reported []int
	}{
		{"nothing is written", silent, pass, 0, 200, []int{200}},
		{"nothing is written, and 200 is refunded", silent, pass, 200, 200, []int{200}},
		{"middleware answers after an empty handler", silent, answering(404), 404, 404, []int{200, 404}},
		{"middleware answers 200 after an empty handler", silent, answering(200), 0, 200, []int{200}},
		{"middleware answers after the refund", silent, answering(404), 200, 404, []int{200}},
		{"middleware does not replace a written answer", writing, answering(404), 0, 202, []int{202}},
		{"middleware answers instead of an error", failing, answering(404), 404, 404, []int{404}},
		{"an error", failing, pass, 500, 500, []int{500}},
		{"middleware drops an error: WithRefund is not called", failing, dropping, 200, 200, nil},
	} {
		t.Run(test.name, func(t *testing.T) {
			limiter := core.Must(core.NewLimiter(core.NewMemoryStore(), core.Policy{Name: "test", Limits: []core.Limit{core.PerDay(5)}}))
			var reported []int
			e := echo.New()
			e.Use(func(next echo.HandlerFunc) echo.HandlerFunc {
				return func(c echo.Context) error { return test.front(c, next(c)) }
			}, echolimit.New(limiter, echolimit.Global("all"), echolimit.WithRefund(func(_ echo.Context, status int) bool {
				reported = append(reported, status)
				return status == test.refunds
			})))
			e.GET("/", test.handler)
			rec := httptest.NewRecorder()
			e.ServeHTTP(rec, httptest.NewRequest(http.MethodGet, "/", nil))
			if rec.Code != test.code || !slices.Equal(reported, test.reported) {
				t.Errorf("the client got %d, want %d; WithRefund was called with %v, want %v", rec.Code, test.code, reported, test.reported)
			}
			left := int64(4)
			if slices.Contains(test.reported, test.refunds) {
				left = 5
			}
			if res, err := limiter.Peek(t.Context(), "global:all"); err != nil || res.Remaining != left {
				t.Errorf("%d tokens are left, %v; want %d of 5", res.Remaining, err, left)
			}
		})
	}
}
