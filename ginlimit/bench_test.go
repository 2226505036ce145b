package ginlimit_test

import (
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/gin-gonic/gin"

	"github.com/tokenbucket-go/ratelimit/core"
	"github.com/tokenbucket-go/ratelimit/ginlimit"
)

// BenchmarkMiddleware measures what the middleware adds to a request, with the
// default header fields.
func BenchmarkMiddleware(b *testing.B) {
	gin.SetMode(gin.ReleaseMode)
	limiter := core.Must(core.NewLimiter(core.NewMemoryStore(), core.Policy{Name: "api", Limits: []core.Limit{core.PerSecond(1_000_000).WithBurst(1_000_000_000)}}))
	for name, middleware := range map[string][]gin.HandlerFunc{"without": nil, "with": {ginlimit.New(limiter, ginlimit.ByIP())}} {
		b.Run(name, func(b *testing.B) {
			r := gin.New()
			r.GET("/", append(middleware, func(c *gin.Context) { c.Status(http.StatusNoContent) })...)
			q := httptest.NewRequest(http.MethodGet, "/", nil)
			w := httptest.NewRecorder()
			b.ReportAllocs()
			for b.Loop() {
				clear(w.Header())
				r.ServeHTTP(w, q)
			}
			if w.Code != http.StatusNoContent {
				b.Fatal("premise: every request is allowed", w.Code)
			}
		})
	}
}
