package fiberlimit_test

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"

	"github.com/gofiber/fiber/v3"

	"github.com/tokenbucket-go/ratelimit/core"
	"github.com/tokenbucket-go/ratelimit/fiberlimit/v3"
)

func Example() {
	limiter := core.Must(core.NewLimiter(core.NewMemoryStore(), core.Policy{
		Name: "api", Limits: []core.Limit{core.PerHour(2)},
	}))
	app := fiber.New()
	app.Use(fiberlimit.New(limiter, fiberlimit.ByHeader("X-Api-Key")))
	app.Get("/", func(c fiber.Ctx) error {
		res, _ := fiberlimit.FromContext(c)
		return c.SendString(fmt.Sprintf("%d left", res.Remaining))
	})

	for _, key := range []string{"ann", "ann", "ann", "bob", ""} {
		req := httptest.NewRequest(http.MethodGet, "/", nil)
		req.Header.Set("X-Api-Key", key)
		res, err := app.Test(req, fiber.TestConfig{})
		if err != nil {
			fmt.Println(err)
			return
		}
		body, _ := io.ReadAll(res.Body)
		_ = res.Body.Close()
		if res.StatusCode == http.StatusOK {
			fmt.Println(res.StatusCode, string(body))
			continue
		}
		fmt.Println(res.StatusCode, res.Header.Get("X-RateLimit-Remaining"))
	}
	// Output:
	// 200 1 left
	// 200 0 left
	// 429 0
	// 200 1 left
	// 400
}

// The user and the organisation pay both, or none of them. Here the
// organisation denies the second user.
func ExampleRule() {
	store := core.NewMemoryStore()
	limiter := func(name string, perHour int) *core.Limiter {
		return core.Must(core.NewLimiter(store, core.Policy{Name: name, Limits: []core.Limit{core.PerHour(perHour)}}))
	}
	limit := fiberlimit.NewTogether([]fiberlimit.Rule{
		{Limiter: limiter("user", 5), Key: fiberlimit.ByHeader("X-User")},
		{Limiter: limiter("organisation", 1), Key: fiberlimit.ByHeader("X-Organisation")},
	})
	app := fiber.New()
	app.Get("/", limit, func(fiber.Ctx) error { return nil })

	for _, user := range []string{"ann", "bob"} {
		req := httptest.NewRequest(http.MethodGet, "/", nil)
		req.Header = http.Header{"X-User": {user}, "X-Organisation": {"acme"}}
		res, err := app.Test(req, fiber.TestConfig{})
		if err != nil {
			fmt.Println(err)
			return
		}
		_ = res.Body.Close()
		fmt.Println(user, res.StatusCode)
	}
	// Output:
	// ann 200
	// bob 429
}
