package echolimit_test

import (
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/labstack/echo/v4"

	"github.com/tokenbucket-go/ratelimit/core"
	"github.com/tokenbucket-go/ratelimit/core/adapter/adaptertest"
	"github.com/tokenbucket-go/ratelimit/echolimit"
)

func TestAllowWithinAHandler(t *testing.T) {
	adaptertest.CheckAllow(t, func(limiter *core.Limiter) func(string) *http.Response {
		e := echo.New()
		e.GET("/", func(c echo.Context) error {
			res, err := echolimit.Allow(c, limiter, adaptertest.LoginKey(c.QueryParam("user")))
			if err != nil {
				return err
			}
			if c.QueryParam("user") == "ann" {
				_ = res.Undo(c.Request().Context())
			}
			return c.NoContent(http.StatusNoContent)
		})
		return func(user string) *http.Response {
			rec := httptest.NewRecorder()
			e.ServeHTTP(rec, httptest.NewRequest(http.MethodGet, "/?user="+user, nil))
			return rec.Result()
		}
	})
}
