package echolimit_test

import (
	"net/http"
	"net/http/httptest"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/labstack/echo/v5"
	"github.com/labstack/echo/v5/middleware"

	"github.com/tokenbucket-go/ratelimit/core"
	"github.com/tokenbucket-go/ratelimit/echolimit/v5"
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

// In echo v5 middleware in front may wrap the response writer and hold the
// answer back until it returns. WithRefund must get the status that the client
// gets, or not be reported.
func TestRefundWithWrappedResponseWriters(t *testing.T) {
	gzip := middleware.GzipWithConfig(middleware.GzipConfig{MinLength: 1000})
	passing := echo.WrapMiddleware(func(h http.Handler) http.Handler { return h })
	both := func(next echo.HandlerFunc) echo.HandlerFunc { return gzip(passing(next)) }
	nothing := func(next echo.HandlerFunc) echo.HandlerFunc { return next }
	answer := func(status int, body string) echo.HandlerFunc {
		return func(c *echo.Context) error { return c.String(status, body) }
	}
	empty := func(c *echo.Context) error { return c.NoContent(http.StatusUnauthorized) }
	failing := func(*echo.Context) error { return echo.ErrUnauthorized }
	silent := func(*echo.Context) error { return nil }
	for _, test := range []struct {
		name     string
		front    echo.MiddlewareFunc
		handler  echo.HandlerFunc
		code     int
		reported []int
	}{
		{"gzip, no body", gzip, empty, 401, []int{401}},
		{"gzip, a short body", gzip, answer(401, "no"), 401, []int{401}},
		{"gzip, a long body", gzip, answer(401, strings.Repeat("no", 1000)), 401, []int{401}},
		{"gzip, an error", gzip, failing, 401, []int{401}},
		{"gzip, nothing written, not called", gzip, silent, 200, nil},
		{"net/http middleware", passing, empty, 401, []int{401}},
		{"net/http middleware, an error", passing, failing, 401, []int{401}},
		{"net/http middleware, nothing written", passing, silent, 200, []int{200}},
		{"a writer without Unwrap, not called", hiding, empty, 401, nil},
		{"net/http middleware behind gzip", both, empty, 401, []int{401}},
		{"net/http middleware behind gzip, a body", both, answer(401, "no"), 401, []int{401}},
		{"net/http middleware behind gzip, an error", both, failing, 401, []int{401}},
		{"nothing in front, net/http middleware behind", nothing, passing(empty), 401, []int{401}},
		{"nothing in front, net/http middleware behind, nothing written", nothing, passing(silent), 200, []int{200}},
		{"nothing in front, net/http middleware behind, an error", nothing, passing(failing), 401, []int{401}},
	} {
		t.Run(test.name, func(t *testing.T) {
			limiter := core.Must(core.NewLimiter(core.NewMemoryStore(), core.Policy{Name: "test", Limits: []core.Limit{core.PerDay(5)}}))
			var reported []int
			e := echo.New()
			e.Use(test.front, echolimit.New(limiter, echolimit.Global("all"), echolimit.WithRefund(func(_ *echo.Context, status int) bool {
				reported = append(reported, status)
				return true
			})))
			e.GET("/", test.handler)
			req := httptest.NewRequest(http.MethodGet, "/", nil)
			req.Header.Set("Accept-Encoding", "gzip")
			rec := httptest.NewRecorder()
			e.ServeHTTP(rec, req)
			if rec.Code != test.code || !slices.Equal(reported, test.reported) {
				t.Errorf("the client got %d, want %d; WithRefund was called with %v, want %v", rec.Code, test.code, reported, test.reported)
			}
			want := 4 + int64(len(test.reported))
			if res, err := limiter.Peek(t.Context(), "global:all"); err != nil || res.Remaining != want {
				t.Errorf("%d tokens are left, %v; want %d of 5", res.Remaining, err, want)
			}
		})
	}
}

// held is a writer that holds the status back until commit, and drops the body.
type held struct {
	http.ResponseWriter

	status int
}

func (w *held) WriteHeader(status int) {
	if w.status == 0 {
		w.status = status
	}
}

func (w *held) Write(b []byte) (int, error) {
	w.WriteHeader(http.StatusOK)
	return len(b), nil
}

func (w *held) Unwrap() http.ResponseWriter { return w.ResponseWriter }

func (w *held) commit() {
	if w.status != 0 {
		w.ResponseWriter.WriteHeader(w.status)
	}
}

// Echo answers HEAD with the handler of GET, through a writer that holds the
// answer back until the middleware of the route has returned. Before echo v5.3
// an app does so by itself.
func TestRefundGetsTheStatusOfHEAD(t *testing.T) {
	byItself := func(next echo.HandlerFunc) echo.HandlerFunc {
		return func(c *echo.Context) error {
			w := c.Response()
			holding := &held{ResponseWriter: w}
			c.SetResponse(holding)
			defer c.SetResponse(w)
			err := next(c)
			holding.commit()
			return err
		}
	}
	for name, register := range map[string]func(*echo.Echo, echo.HandlerFunc, echo.MiddlewareFunc){
		"by the app": func(e *echo.Echo, h echo.HandlerFunc, limit echo.MiddlewareFunc) { e.HEAD("/", h, byItself, limit) },
		"by echo":    func(e *echo.Echo, h echo.HandlerFunc, limit echo.MiddlewareFunc) { e.GET("/", h, limit) },
	} {
		t.Run(name, func(t *testing.T) {
			var config echo.RouterConfig
			if name == "by echo" {
				auto := reflect.ValueOf(&config).Elem().FieldByName("AutoHandleHEAD")
				if !auto.IsValid() {
					t.Skip("this echo does not answer HEAD by itself")
				}
				auto.SetBool(true)
			}
			limiter := core.Must(core.NewLimiter(core.NewMemoryStore(), core.Policy{Name: "test", Limits: []core.Limit{core.PerDay(5)}}))
			var reported []int
			e := echo.NewWithConfig(echo.Config{Router: echo.NewRouter(config)})
			register(e, func(c *echo.Context) error { return c.String(http.StatusUnauthorized, "no") },
				echolimit.New(limiter, echolimit.Global("all"), echolimit.WithRefund(func(_ *echo.Context, status int) bool {
					reported = append(reported, status)
					return false
				})))
			rec := httptest.NewRecorder()
			e.ServeHTTP(rec, httptest.NewRequest(http.MethodHead, "/", nil))
			if rec.Code != http.StatusUnauthorized || !slices.Equal(reported, []int{http.StatusUnauthorized}) {
				t.Errorf("the client got %d, WithRefund was called with %v; want 401 for both", rec.Code, reported)
			}
		})
	}
}

// A settle function gets the status that the handler wrote, although gzip in
// front of the limiter still holds it back.
func TestSettleBehindGzipGetsTheStatus(t *testing.T) {
	for _, status := range []int{http.StatusOK, http.StatusNoContent, http.StatusUnauthorized} {
		var seen []int
		e := echo.New()
		e.Use(middleware.GzipWithConfig(middleware.GzipConfig{MinLength: 1000}))
		limiter := core.Must(core.NewLimiter(core.NewMemoryStore(), core.Policy{Name: "test", Limits: []core.Limit{core.PerDay(5)}}))
		e.Use(echolimit.New(limiter, echolimit.Global("all"), echolimit.WithSettle(func(_ *echo.Context, status int) core.Units {
			seen = append(seen, status)
			return nil
		})))
		e.GET("/", func(c *echo.Context) error {
			if status == http.StatusNoContent {
				return c.NoContent(status)
			}
			return c.String(status, "short")
		})
		r := httptest.NewRequest(http.MethodGet, "/", nil)
		r.Header.Set("Accept-Encoding", "gzip")
		rec := httptest.NewRecorder()
		e.ServeHTTP(rec, r)
		if rec.Code != status || len(seen) != 1 || seen[0] != status {
			t.Errorf("the client got %d, and the settle function %v, want %d once", rec.Code, seen, status)
		}
	}
}
