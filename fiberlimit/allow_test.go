package fiberlimit_test

import (
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/gofiber/fiber/v2"

	"github.com/tokenbucket-go/ratelimit/core"
	"github.com/tokenbucket-go/ratelimit/core/adapter/adaptertest"
	"github.com/tokenbucket-go/ratelimit/fiberlimit"
)

func TestAllowWithinAHandler(t *testing.T) {
	adaptertest.CheckAllow(t, func(limiter *core.Limiter) func(string) *http.Response {
		app := fiber.New()
		app.Get("/", func(c *fiber.Ctx) error {
			res, err := fiberlimit.Allow(c, limiter, adaptertest.LoginKey(c.Query("user")))
			if err != nil {
				return err
			}
			if c.Query("user") == "ann" {
				_ = res.Undo(c.UserContext())
			}
			return c.SendStatus(http.StatusNoContent)
		})
		return func(user string) *http.Response {
			r := httptest.NewRequest(http.MethodGet, "/?user="+user, nil)
			res, err := test(app, r)
			if err != nil {
				t.Fatal(err)
			}
			return res
		}
	})
}
