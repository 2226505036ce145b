package ginlimit_test

import (
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/gin-gonic/gin"
	"github.com/stretchr/testify/assert"

	"github.com/tokenbucket-go/ratelimit/core"
	"github.com/tokenbucket-go/ratelimit/ginlimit"
	"github.com/tokenbucket-go/ratelimit/internal/limittest"
	"github.com/tokenbucket-go/ratelimit/internal/logtest"
)

// A request that HandleContext routes again is charged once, also if middleware
// has replaced the request meanwhile. The suite shows the rest.
func TestHandleContextChargesAReplacedRequestOnce(t *testing.T) {
	r := gin.New()
	r.Use(ginlimit.New(limittest.Limiter(t, core.NewMemoryStore(), "api", core.PerDay(3)), ginlimit.ByIP()))
	r.Use(func(c *gin.Context) { c.Request = c.Request.WithContext(c.Request.Context()) })
	r.GET("/old", func(c *gin.Context) {
		c.Request.URL.Path = "/new"
		r.HandleContext(c)
	})
	r.GET("/new", func(c *gin.Context) {
		res, ok := ginlimit.FromContext(c)
		c.String(http.StatusOK, "%d %v %d", res.Remaining, ok, len(ginlimit.AllFromContext(c)))
	})
	request := httptest.NewRequest(http.MethodGet, "/old", nil) // the same one again and again, as in many tests
	for _, want := range []string{"200 2 true 1", "200 1 true 1", "200 0 true 1", "429 "} {
		request.URL.Path = "/old"
		w := httptest.NewRecorder()
		r.ServeHTTP(w, request)
		assert.Contains(t, fmt.Sprint(w.Code, " ", w.Body), want, "each is charged once")
	}
	assert.Nil(t, request.Response, "the request still holds the decision")
}

// denying returns an app whose limiter denies all requests.
func denying(t *testing.T, denied func(*gin.Context, core.Result), front ...gin.HandlerFunc) *gin.Engine {
	r := gin.New()
	r.Use(front...)
	r.Use(ginlimit.New(limittest.Limiter(t, core.NewMemoryStore(), "api", core.PerDay(1)), ginlimit.ByIP(),
		ginlimit.WithCost(func(*gin.Context) (int64, error) { return 2, nil }), ginlimit.OnDenied(denied)))
	return r
}

// OnDenied may send a denied request to another route. It does not come back to
// OnDenied for ever.
func TestOnDeniedCanRouteAgain(t *testing.T) {
	var r *gin.Engine
	r = denying(t, func(c *gin.Context, _ core.Result) {
		c.Request.URL.Path = "/busy"
		r.HandleContext(c)
	})
	r.GET("/busy", func(c *gin.Context) {
		res, _ := ginlimit.FromContext(c)
		c.String(http.StatusTooManyRequests, fmt.Sprint("busy ", res.Allowed))
	})
	assert.Equal(t, "busy false", send(r, "GET", "/", nil).Body.String())
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
		r := denying(t, func(c *gin.Context, _ core.Result) { x.denied(c) }, func(c *gin.Context) {
			c.Next()
			if len(c.Errors) > 0 && !c.Writer.Written() {
				c.Status(http.StatusConflict)
			}
		})
		assert.Equal(t, x.status, send(r, "GET", "/", nil).Code, name)
	}
}

// Gin has no error type with a status, but a key function may write the answer
// and abort. The client gets that answer. It is logged only if it is a failure
// of the service.
func TestAnswerOfAKeyFunctionIsKept(t *testing.T) {
	for name, test := range map[string]struct {
		answer func(*gin.Context)
		want   string
		logged bool
	}{
		"with a body":               {func(c *gin.Context) { c.AbortWithStatusJSON(http.StatusUnauthorized, "log in") }, `401 "log in"`, false},
		"with a body, not aborting": {func(c *gin.Context) { c.JSON(http.StatusUnauthorized, "log in") }, `401 "log in"`, false},
		"with c.AbortWithError":     {func(c *gin.Context) { _ = c.AbortWithError(http.StatusUnauthorized, errors.New("no")) }, "401 ", false},
		"with a status":             {func(c *gin.Context) { c.AbortWithStatus(http.StatusForbidden) }, "403 ", false},
		"with the service's error":  {func(c *gin.Context) { c.AbortWithStatusJSON(http.StatusBadGateway, "down") }, `502 "down"`, true},
		"without one":               {func(*gin.Context) {}, "500 ", true},
	} {
		t.Run(name, func(t *testing.T) {
			r := gin.New()
			r.GET("/", ginlimit.New(limittest.Limiter(t, core.NewMemoryStore(), "test", core.PerDay(5)), func(c *gin.Context) (string, error) {
				test.answer(c)
				return "", errors.New("no user")
			}), func(*gin.Context) { t.Error("the handler was called") })
			logged := logtest.Capture(func() {
				w := send(r, "GET", "/", nil)
				assert.Contains(t, fmt.Sprint(w.Code, " ", w.Body), test.want)
			})
			assert.Equal(t, test.logged, logged != "", logged)
		})
	}
}

// A handler that leaves an error, and sets a status with c.Status, gets that
// status sent: settlements and refunds see it too. Without a status the error
// counts as 500.
func TestStatusOfAnErrorThatIsLeft(t *testing.T) {
	for status, want := range map[int]int{http.StatusUnprocessableEntity: 422, http.StatusOK: 500} {
		var seen []int
		r := gin.New()
		r.GET("/", ginlimit.New(limittest.Limiter(t, core.NewMemoryStore(), "test", core.PerDay(5)), ginlimit.Global("all"),
			ginlimit.WithSettle(func(_ *gin.Context, status int) core.Units {
				seen = append(seen, status)
				return nil
			})), func(c *gin.Context) {
			c.Status(status)
			_ = c.Error(errors.New("bad"))
		})
		assert.Equal(t, status, send(r, "GET", "/", nil).Code)
		assert.Equal(t, []int{want}, seen)
	}
}
