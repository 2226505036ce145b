package ginlimit_test

import (
	"io"
	"net/http"
	"net/http/httptest"
	"testing"
	"testing/synctest"

	"github.com/gin-gonic/gin"

	"github.com/tokenbucket-go/ratelimit/ginlimit"
	"github.com/tokenbucket-go/ratelimit/internal/endings"
)

func TestMiddlewareThatAnswers(t *testing.T) {
	endings.Run(t, "gin", synctest.Test, func(t *testing.T, c endings.Case) int {
		limit := []gin.HandlerFunc{
			ginlimit.New(c.Slots, ginlimit.Global(endings.Key)),
			ginlimit.New(c.Calls, ginlimit.Global(endings.Key), ginlimit.WithRefund(func(_ *gin.Context, status int) bool { return c.See(status) })),
		}
		if c.Middleware != "gin.Recovery" {
			t.Fatalf("the test does not know %q", c.Middleware)
		}
		use := gin.RecoveryWithWriter(io.Discard)
		r := gin.New()
		if c.InFront {
			r.Use(append(limit, use)...)
		} else {
			r.Use(append([]gin.HandlerFunc{use}, limit...)...)
		}
		r.GET("/", func(*gin.Context) { panic("a handler's mistake") })
		rec := httptest.NewRecorder()
		r.ServeHTTP(rec, httptest.NewRequest(http.MethodGet, "/", nil))
		return rec.Code
	})
}
