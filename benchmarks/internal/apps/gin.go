package apps

import (
	"net/http"

	ginratelimit "github.com/JGLTechnologies/gin-rate-limit"
	"github.com/gin-gonic/gin"
	ululegin "github.com/ulule/limiter/v3/drivers/middleware/gin"

	"github.com/tokenbucket-go/ratelimit/benchmarks/internal/peers"
	"github.com/tokenbucket-go/ratelimit/core"
	"github.com/tokenbucket-go/ratelimit/ginlimit"
)

func ginApp(use ...gin.HandlerFunc) http.Handler {
	gin.SetMode(gin.ReleaseMode)
	r := gin.New()
	r.Use(use...)
	r.GET("/items/:id", func(c *gin.Context) { c.String(http.StatusOK, "ok") })
	return r
}

func ginKey(c *gin.Context) string { return c.GetHeader(KeyHeader) }

func ginWithout(peers.Connection, peers.Limit) (http.Handler, error) { return ginApp(), nil }

func ginLibrary(headers core.HeaderStyle) func(peers.Connection, peers.Limit) (http.Handler, error) {
	return func(to peers.Connection, l peers.Limit) (http.Handler, error) {
		limiter, err := peers.LibraryOnRedis(to, l, headers)
		if err != nil {
			return nil, err
		}
		return ginApp(ginlimit.New(limiter, ginlimit.ByHeader(KeyHeader))), nil
	}
}

func ginUlule(to peers.Connection, l peers.Limit) (http.Handler, error) {
	limiter, err := peers.UluleOnRedis(to, l)
	return ginApp(ululegin.NewMiddleware(limiter, ululegin.WithKeyGetter(ginKey))), err
}

func ginRateLimit(to peers.Connection, l peers.Limit) (http.Handler, error) {
	return ginApp(ginratelimit.RateLimiter(peers.GinRateLimitOnRedis(to, l), &ginratelimit.Options{KeyFunc: ginKey})), nil
}
