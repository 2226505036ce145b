package ginlimit_test

import (
	"io"
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
		r.Use(endings.Order(c, use, limit...)...)
		r.POST("/", func(*gin.Context) { panic("a handler's mistake") })
		return endings.Ask(r)
	})
}
