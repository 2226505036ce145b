package ginlimit_test

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/gin-gonic/gin"

	"github.com/tokenbucket-go/ratelimit/core"
	"github.com/tokenbucket-go/ratelimit/ginlimit"
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
