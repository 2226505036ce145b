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
	"github.com/tokenbucket-go/ratelimit/internal/limittest"
)

var errNotFound = errors.New("no such row")

// refund is a request of an app, and the statuses with which WithRefund is
// called.
type refund struct {
	name     string
	front    echo.MiddlewareFunc // of the limiter
	handler  echo.HandlerFunc
	errors   echo.HTTPErrorHandler // nil is echo's own
	code     int                   // that the client gets; 0 is any
	reported []int                 // nil is that of the client
	refunds  int                   // the status that is refunded
}

func (test *refund) run(t *testing.T) {
	limiter := limittest.Limiter(t, core.NewMemoryStore(), "test", core.PerDay(5))
	var reported []int
	e := echo.New()
	if test.errors != nil {
		e.HTTPErrorHandler = test.errors
	}
	e.Use(test.front, echolimit.New(limiter, echolimit.Global("all"), echolimit.WithRefund(func(_ echo.Context, status int) bool {
		reported = append(reported, status)
		return status == test.refunds
	})))
	e.GET("/", test.handler)
	request, rec := httptest.NewRequest(http.MethodGet, "/", nil), httptest.NewRecorder()
	request.Header.Set("Accept-Encoding", "gzip")
	e.ServeHTTP(rec, request)
	want, left := test.reported, int64(4)
	if want == nil {
		want = []int{rec.Code}
	}
	if test.code != 0 && rec.Code != test.code || !slices.Equal(reported, want) {
		t.Errorf("the client got %d, want %d; WithRefund was called with %v, want %v", rec.Code, test.code, reported, want)
	}
	if slices.Contains(want, test.refunds) {
		left = 5
	}
	if got := limittest.Left(t, limiter, "global:all"); got != left {
		t.Errorf("%d tokens are left, want %d of 5", got, left)
	}
}

// after is middleware that does something with the error of the handler.
func after(f func(echo.Context, error) error) echo.MiddlewareFunc {
	return func(next echo.HandlerFunc) echo.HandlerFunc {
		return func(c echo.Context) error { return f(c, next(c)) }
	}
}

// In echo the app's error handler and middleware in front of the limiter decide
// the status. WithRefund must get the status that the client gets.
func TestRefundGetsTheStatusThatTheClientGets(t *testing.T) {
	nothing := after(func(_ echo.Context, err error) error { return err })
	dropping := after(func(echo.Context, error) error { return nil })
	answering := func(status int) echo.MiddlewareFunc {
		return after(func(c echo.Context, _ error) error {
			if committed(c) {
				return nil
			}
			return c.NoContent(status)
		})
	}
	mapping := func(err error, c echo.Context) {
		if errors.Is(err, errNotFound) {
			_ = c.NoContent(http.StatusNotFound)
			return
		}
		c.Echo().DefaultHTTPErrorHandler(err, c)
	}
	failing := func(echo.Context) error { return errNotFound }
	silent := func(echo.Context) error { return nil }
	writing := func(c echo.Context) error { return c.NoContent(http.StatusAccepted) }
	writingAndFailing := func(c echo.Context) error { _ = c.NoContent(http.StatusAccepted); return errNotFound }
	wrapping := func(echo.Context) error { return echo.ErrUnauthorized.WithInternal(echo.ErrForbidden) }
	wrapped := func(echo.Context) error { return fmt.Errorf("login: %w", echo.ErrUnauthorized) }
	early := func(c echo.Context) error { c.Error(errNotFound); return nil }
	for _, test := range []refund{
		{name: "an answer", front: nothing, handler: writing, code: 202},
		{name: "an error after an answer", front: nothing, handler: writingAndFailing, code: 202},
		{name: "an HTTP error that wraps another", front: nothing, handler: wrapping},
		{name: "a wrapped HTTP error", front: nothing, handler: wrapped},
		{name: "an error answered early", front: nothing, handler: early, errors: mapping, code: 404},
		{name: "nothing is written", front: nothing, handler: silent, code: 200},
		{name: "nothing is written, and 200 is refunded", front: nothing, handler: silent, refunds: 200, code: 200},
		{name: "middleware answers an empty handler", front: answering(404), handler: silent, refunds: 404, code: 404, reported: []int{200, 404}},
		{name: "middleware answers after the refund", front: answering(404), handler: silent, refunds: 200, code: 404, reported: []int{200}},
		{name: "middleware answers 200", front: answering(200), handler: silent, code: 200},
		{name: "middleware does not replace an answer", front: answering(404), handler: writing, code: 202},
		{name: "middleware answers instead of an error", front: answering(404), handler: failing, refunds: 404, code: 404},
		{name: "middleware drops an error: WithRefund is not called", front: dropping, handler: failing, refunds: 200, code: 200, reported: []int{}},
	} {
		t.Run(test.name, test.run)
	}
}
