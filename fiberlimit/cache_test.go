package fiberlimit_test

import (
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/gofiber/fiber/v2"
	"github.com/gofiber/fiber/v2/middleware/cache"

	"github.com/tokenbucket-go/ratelimit/core"
	"github.com/tokenbucket-go/ratelimit/fiberlimit"
)

// Fiber's cache middleware in front of a limiter keeps no denial that is an
// error. It keeps every other answer, whatever its status, so the page of
// OnDenied says that it must return an error there.
func TestFibersCacheKeepsNoDenial(t *testing.T) {
	for name, options := range map[string][]fiberlimit.Option{
		"default": nil,
		"OnDenied that returns an error": {fiberlimit.OnDenied(func(*fiber.Ctx, core.Result) error {
			return fiber.NewError(http.StatusTooManyRequests, "later")
		})},
	} {
		limiter := core.Must(core.NewLimiter(core.NewMemoryStore(), core.Policy{Name: "api", Limits: []core.Limit{core.PerDay(1)}}))
		app := fiber.New()
		app.Use(cache.New(), fiberlimit.New(limiter, fiberlimit.ByHeader("User"), options...))
		handled := 0
		app.Get("/:page", func(c *fiber.Ctx) error { handled++; return c.SendString("page") })
		get := func(page, user string) string {
			r := httptest.NewRequest(http.MethodGet, page, nil)
			r.Header.Set("User", user)
			res, err := app.Test(r)
			if err != nil {
				t.Fatal(err)
			}
			defer res.Body.Close()
			return res.Header.Get("X-Cache")
		}
		get("/a", "ann")
		get("/b", "ann") // denied
		get("/b", "bob")
		if handled != 2 {
			t.Errorf("%s: the handler was called %d times, want for ann's page and for bob's, which ann was denied", name, handled)
		}
		if got := get("/b", "eve"); got != "hit" {
			t.Errorf("%s: the premise: what bob got is kept, but the cache says %q", name, got)
		}
	}
}
