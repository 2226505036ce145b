package peers

import (
	"net/http"

	ginratelimit "github.com/JGLTechnologies/gin-rate-limit"
	"github.com/gin-gonic/gin"
	ululelimiter "github.com/ulule/limiter/v3"
	ululegin "github.com/ulule/limiter/v3/drivers/middleware/gin"
	ululememory "github.com/ulule/limiter/v3/drivers/store/memory"

	"github.com/tokenbucket-go/ratelimit/core"
	"github.com/tokenbucket-go/ratelimit/ginlimit"
)

// Ulule is the name of ulule/limiter among the middlewares.
const Ulule = "ulule/limiter"

// Gin is gin.
func Gin(l Limit) Framework {
	gin.SetMode(gin.ReleaseMode)
	app := func(use ...gin.HandlerFunc) http.Handler {
		r := gin.New()
		r.Use(use...)
		r.GET("/items/:id", func(c *gin.Context) { c.String(http.StatusOK, "ok") })
		return r
	}
	ulule := ululelimiter.New(ululememory.NewStore(), ululelimiter.Rate{Period: window, Limit: int64(l.Burst)})
	store := ginratelimit.InMemoryStore(&ginratelimit.InMemoryOptions{Rate: window, Limit: uint(l.Burst)})
	ours := func(style core.HeaderStyle) gin.HandlerFunc {
		return ginlimit.New(newLimiter(l, style), ginlimit.ByIP())
	}
	return Framework{"gin", []Middleware{
		{Without, "", serve(app(), "")},
		{Library, legacyHeader, serve(app(ours(core.HeadersDefault)), legacyHeader)},
		{LegacyFields, legacyHeader, serve(app(ours(core.HeadersLegacy)), legacyHeader)},
		{Ulule, legacyHeader, serve(app(ululegin.NewMiddleware(ulule)), legacyHeader)},
		{"gin-rate-limit", "X-Rate-Limit-Limit", serve(app(ginratelimit.RateLimiter(store, nil)), "X-Rate-Limit-Limit")},
	}}
}
