package fiberlimit_test

import (
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/gofiber/fiber/v3"
	"github.com/gofiber/fiber/v3/middleware/cache"

	"github.com/tokenbucket-go/ratelimit/core"
	"github.com/tokenbucket-go/ratelimit/fiberlimit/v3"
)

// Fiber's cache middleware in front of a limiter keeps no denial, also if
// OnDenied answers with a status that may be kept: otherwise one denied client
// would deny the page to all.
func TestFibersCacheKeepsNoDenial(t *testing.T) {
	for name, options := range map[string][]fiberlimit.Option{
		"default": nil,
		"OnDenied that answers": {fiberlimit.OnDenied(func(c fiber.Ctx, _ core.Result) error {
			return c.Status(http.StatusTooManyRequests).SendString("later")
		})},
		"OnDenied that answers 200": {fiberlimit.OnDenied(func(c fiber.Ctx, _ core.Result) error { return c.SendString("later") })},
	} {
		limiter := core.Must(core.NewLimiter(core.NewMemoryStore(), core.Policy{Name: "api", Limits: []core.Limit{core.PerDay(1)}}))
		app := fiber.New()
		app.Use(cache.New(), fiberlimit.New(limiter, fiberlimit.ByHeader("User"), options...))
		handled := 0
		app.Get("/:page", func(c fiber.Ctx) error { handled++; return c.SendString("page") })
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
