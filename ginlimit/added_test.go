package ginlimit_test

import (
	"net/http"
	"testing"

	"github.com/gin-gonic/gin"

	"github.com/tokenbucket-go/ratelimit/core"
	"github.com/tokenbucket-go/ratelimit/ginlimit"
	"github.com/tokenbucket-go/ratelimit/internal/limittest"
)

func TestMiddlewareAddsFewAllocations(t *testing.T) {
	serve := func(middleware gin.HandlerFunc) func() {
		r := gin.New()
		r.Use(middleware)
		r.GET("/", func(c *gin.Context) { c.Status(http.StatusNoContent) })
		return limittest.Request(t, r)
	}
	limiter := limittest.Limiter(t, core.NewMemoryStore(), "api", core.PerMinute(1_000_000))
	limittest.CheckAdded(t,
		serve(func(*gin.Context) {}),
		serve(func(c *gin.Context) { c.Set("key", t) }),
		serve(ginlimit.New(limiter, ginlimit.ByIP())))
}
