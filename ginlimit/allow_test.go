package ginlimit_test

import (
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/gin-gonic/gin"

	"github.com/tokenbucket-go/ratelimit/core"
	"github.com/tokenbucket-go/ratelimit/core/adapter/adaptertest"
	"github.com/tokenbucket-go/ratelimit/ginlimit"
)

func TestAllowWithinAHandler(t *testing.T) {
	adaptertest.CheckAllow(t, func(limiter *core.Limiter) func(string) *http.Response {
		r := gin.New()
		r.GET("/", func(c *gin.Context) {
			res, ok := ginlimit.Allow(c, limiter, adaptertest.LoginKey(c.Query("user")))
			if !ok {
				return
			}
			if c.Query("user") == "ann" {
				_ = res.Undo(c)
			}
			c.Status(http.StatusNoContent)
		}, func(c *gin.Context) {
			if c.IsAborted() {
				t.Error("a refused request goes on to the next handler")
			}
		})
		return func(user string) *http.Response {
			rec := httptest.NewRecorder()
			r.ServeHTTP(rec, httptest.NewRequest(http.MethodGet, "/?user="+user, nil))
			return rec.Result()
		}
	})
}
