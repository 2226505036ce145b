package ginlimit_test

import (
	"errors"
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/gin-gonic/gin"

	"github.com/tokenbucket-go/ratelimit/core"
	"github.com/tokenbucket-go/ratelimit/ginlimit"
	"github.com/tokenbucket-go/ratelimit/internal/logtest"
)

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
