package ginlimit_test

import (
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/gin-gonic/gin"

	"github.com/tokenbucket-go/ratelimit/core"
	"github.com/tokenbucket-go/ratelimit/ginlimit"
	"github.com/tokenbucket-go/ratelimit/internal/logtest"
)

// A request that HandleContext routes again passes the same middleware a second
// time. It is charged once, with and without a refund, by one limiter and by
// several, also if middleware has replaced the request meanwhile.
func TestHandleContextChargesOnce(t *testing.T) {
	for _, replaced := range []bool{false, true} {
		refunds := 0
		for name, install := range map[string]func(*core.Limiter) gin.HandlerFunc{
			"New": func(l *core.Limiter) gin.HandlerFunc { return ginlimit.New(l, ginlimit.ByIP()) },
			"WithRefund": func(l *core.Limiter) gin.HandlerFunc {
				return ginlimit.New(l, ginlimit.ByIP(), ginlimit.WithRefund(func(*gin.Context, int) bool { refunds++; return false }))
			},
			"NewTogether": func(l *core.Limiter) gin.HandlerFunc {
				return ginlimit.NewTogether([]ginlimit.Rule{{Limiter: l, Key: ginlimit.ByIP()}})
			},
		} {
			limiter := core.Must(core.NewLimiter(core.NewMemoryStore(), core.Policy{Name: "api", Limits: []core.Limit{core.PerDay(3)}}))
			r := gin.New()
			r.Use(install(limiter))
			r.Use(func(c *gin.Context) {
				if replaced {
					c.Request = c.Request.WithContext(c.Request.Context())
				}
			})
			r.GET("/old", func(c *gin.Context) {
				c.Request.URL.Path = "/new"
				r.HandleContext(c)
			})
			r.GET("/new", func(c *gin.Context) {
				res, ok := ginlimit.FromContext(c)
				c.String(http.StatusOK, "%d %v %d", res.Remaining, ok, len(ginlimit.AllFromContext(c)))
			})
			request := httptest.NewRequest(http.MethodGet, "/old", nil) // the same one again and again, as in many tests
			for i, want := range []string{"2 true 1", "1 true 1", "0 true 1", ""} {
				request.URL.Path = "/old"
				w := httptest.NewRecorder()
				r.ServeHTTP(w, request)
				if status := w.Code; want != "" && (status != 200 || w.Body.String() != want) || want == "" && status != 429 {
					t.Errorf("%s, request replaced: %v: request %d was answered %d %q, want %q: each is charged once", name, replaced, i+1, status, w.Body, want)
				}
			}
			if request.Response != nil {
				t.Errorf("%s: the request still holds the decision", name)
			}
		}
		if refunds != 3 {
			t.Errorf("WithRefund was called %d times for three allowed requests", refunds)
		}
	}
}

// OnDenied may send a denied request to another route. It does not come back to
// OnDenied for ever.
func TestOnDeniedCanRouteAgain(t *testing.T) {
	limiter := core.Must(core.NewLimiter(core.NewMemoryStore(), core.Policy{Name: "api", Limits: []core.Limit{core.PerDay(1)}}))
	r := gin.New()
	r.Use(ginlimit.New(limiter, ginlimit.ByIP(), ginlimit.OnDenied(func(c *gin.Context, _ core.Result) {
		c.Request.URL.Path = "/busy"
		r.HandleContext(c)
	})))
	r.GET("/", func(c *gin.Context) { c.Status(http.StatusNoContent) })
	r.GET("/busy", func(c *gin.Context) {
		res, _ := ginlimit.FromContext(c)
		c.String(http.StatusTooManyRequests, fmt.Sprint("busy ", res.Allowed))
	})
	for _, want := range []string{"204 ", "429 busy false"} {
		w := httptest.NewRecorder()
		r.ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/", nil))
		if got := fmt.Sprint(w.Code, " ", w.Body); got != want {
			t.Errorf("answered %q, want %q", got, want)
		}
	}
}

// Errors in c.Errors and a status without a body are answers, for middleware in
// front and for gin.
func TestWhatOnDeniedLeavesToOthersIsAnAnswer(t *testing.T) {
	for name, x := range map[string]struct {
		denied func(*gin.Context)
		status int
	}{
		"c.Status":          {func(c *gin.Context) { c.Status(http.StatusTeapot) }, http.StatusTeapot},
		"c.AbortWithStatus": {func(c *gin.Context) { c.AbortWithStatus(http.StatusTeapot) }, http.StatusTeapot},
		"c.Error":           {func(c *gin.Context) { _ = c.Error(http.ErrAbortHandler) }, http.StatusConflict},
		"a body with 200":   {func(c *gin.Context) { c.String(http.StatusOK, "later") }, http.StatusOK},
		"nothing":           {func(*gin.Context) {}, http.StatusTooManyRequests},
	} {
		limiter := core.Must(core.NewLimiter(core.NewMemoryStore(), core.Policy{Name: "api", Limits: []core.Limit{core.PerDay(1)}}))
		r := gin.New()
		r.Use(func(c *gin.Context) {
			c.Next()
			if len(c.Errors) > 0 && !c.Writer.Written() {
				c.Status(http.StatusConflict)
			}
		})
		r.Use(ginlimit.New(limiter, ginlimit.ByIP(), ginlimit.WithCost(func(*gin.Context) (int64, error) { return 2, nil }),
			ginlimit.OnDenied(func(c *gin.Context, _ core.Result) { x.denied(c) })))
		w := httptest.NewRecorder()
		r.ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/", nil))
		if w.Code != x.status {
			t.Errorf("%s: answered %d, want %d", name, w.Code, x.status)
		}
	}
}

// Gin has no error type with a status, but a key function may write the answer
// and abort. The client gets that answer. It is logged only if it is a failure
// of the service.
func TestAnswerOfAKeyFunctionIsKept(t *testing.T) {
	for _, test := range []struct {
		name   string
		answer func(*gin.Context)
		status int
		body   string
		logged bool
	}{
		{"with a body", func(c *gin.Context) { c.AbortWithStatusJSON(http.StatusUnauthorized, "log in") }, 401, `"log in"`, false},
		{"with a body, without aborting", func(c *gin.Context) { c.JSON(http.StatusUnauthorized, "log in") }, 401, `"log in"`, false},
		{"with c.AbortWithError", func(c *gin.Context) { _ = c.AbortWithError(http.StatusUnauthorized, errors.New("no")) }, 401, "", false},
		{"with a status", func(c *gin.Context) { c.AbortWithStatus(http.StatusForbidden) }, 403, "", false},
		{"with an error of the service", func(c *gin.Context) { c.AbortWithStatusJSON(http.StatusBadGateway, "down") }, 502, `"down"`, true},
		{"without one", func(*gin.Context) {}, 500, "", true},
	} {
		t.Run(test.name, func(t *testing.T) {
			limiter := core.Must(core.NewLimiter(core.NewMemoryStore(), core.Policy{Name: "test", Limits: []core.Limit{core.PerDay(5)}}))
			r := gin.New()
			r.GET("/", ginlimit.New(limiter, func(c *gin.Context) (string, error) {
				test.answer(c)
				return "", errors.New("no user")
			}), func(*gin.Context) { t.Error("the handler was called") })
			rec := httptest.NewRecorder()
			logged := logtest.Capture(func() { r.ServeHTTP(rec, httptest.NewRequest(http.MethodGet, "/", nil)) })
			if rec.Code != test.status || test.body != "" && rec.Body.String() != test.body {
				t.Errorf("answered %d %q, want %d %q", rec.Code, rec.Body, test.status, test.body)
			}
			if (logged != "") != test.logged {
				t.Errorf("logged %q, want a line: %v", logged, test.logged)
			}
		})
	}
}

// A handler that leaves an error, and sets a status with c.Status, gets that
// status sent: settlements and refunds see it too. Without a status the error
// counts as 500.
func TestStatusOfAnErrorThatIsLeft(t *testing.T) {
	for status, want := range map[int]int{http.StatusUnprocessableEntity: 422, http.StatusOK: 500} {
		limiter := core.Must(core.NewLimiter(core.NewMemoryStore(), core.Policy{Name: "test", Limits: []core.Limit{core.PerDay(5)}}))
		var seen []int
		r := gin.New()
		r.GET("/", ginlimit.New(limiter, ginlimit.Global("all"), ginlimit.WithSettle(func(_ *gin.Context, status int) core.Units {
			seen = append(seen, status)
			return nil
		})), func(c *gin.Context) {
			c.Status(status)
			_ = c.Error(errors.New("bad"))
		})
		rec := httptest.NewRecorder()
		r.ServeHTTP(rec, httptest.NewRequest(http.MethodGet, "/", nil))
		if rec.Code != status || len(seen) != 1 || seen[0] != want {
			t.Errorf("the client got %d, and the settle function %v, want %d and %d once", rec.Code, seen, status, want)
		}
	}
}
