package fiberlimit_test

import (
	"fmt"
	"io"
	"log"
	"maps"
	"net/http"
	"net/http/httptest"

	"github.com/gofiber/fiber/v2"

	"github.com/tokenbucket-go/ratelimit/core"
	"github.com/tokenbucket-go/ratelimit/fiberlimit"
)

// A denial is a fiber.Error. The app's error handler renders it.
func Example() {
	limiter := core.Must(core.NewLimiter(core.NewMemoryStore(), core.Policy{
		Name: "api", Limits: []core.Limit{core.PerHour(2)},
	}))
	app := fiber.New()
	app.Use(fiberlimit.New(limiter, fiberlimit.ByIP()))
	app.Get("/", func(c *fiber.Ctx) error { return c.SendString("hello") })

	for range 3 {
		code, _, header := send(app, "GET", "/", nil)
		fmt.Println(code, header.Get("X-RateLimit-Remaining"))
	}
	// Output:
	// 200 1
	// 200 0
	// 429 0
}

// A key function of your own takes fiber's context. Fiber knows the route only
// in handlers of the route.
func ExampleKeyFunc() {
	var byUser fiberlimit.KeyFunc = func(c *fiber.Ctx) (string, error) {
		user := c.Get("X-User")
		if user == "" {
			return "", core.ErrNoKey // answered with 400, unless FirstOf tries another key
		}
		return core.JoinKey("user", user), nil
	}
	limiter := core.Must(core.NewLimiter(core.NewMemoryStore(), core.Policy{
		Name: "reports", Limits: []core.Limit{core.PerHour(1)},
	}))
	app := fiber.New()
	app.Get("/reports/:id", fiberlimit.New(limiter, fiberlimit.Join(fiberlimit.ByRoute(), byUser)),
		func(c *fiber.Ctx) error { return c.SendStatus(fiber.StatusOK) })

	for _, user := range []string{"ada", "ada", "grace", ""} {
		code, _, _ := send(app, "GET", "/reports/1", http.Header{"X-User": {user}})
		fmt.Println(code)
	}
	// Output:
	// 200
	// 429
	// 200
	// 400
}

// Only failed logins count: a success returns its token.
func ExampleOption() {
	limiter := core.Must(core.NewLimiter(core.NewMemoryStore(), core.Policy{
		Name: "login", Limits: []core.Limit{core.PerHour(2)},
	}))
	app := fiber.New()
	app.Post("/login", fiberlimit.New(limiter, fiberlimit.ByIP(),
		fiberlimit.WithRefund(func(_ *fiber.Ctx, status int) bool { return status < 400 }),
		fiberlimit.OnDenied(func(c *fiber.Ctx, res core.Result) error {
			return c.Status(fiber.StatusTooManyRequests).JSON(core.Problem(res).ViolatedPolicies)
		}),
	), func(c *fiber.Ctx) error {
		if c.Query("password") != "right" {
			return fiber.ErrUnauthorized
		}
		return c.SendStatus(fiber.StatusNoContent)
	})

	for _, password := range []string{"right", "wrong", "wrong", "right"} {
		code, _, _ := send(app, "POST", "/login?password="+password, nil)
		fmt.Println(code)
	}
	// Output:
	// 204
	// 401
	// 401
	// 429
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
	app.Get("/", limit, func(*fiber.Ctx) error { return nil })

	for _, user := range []string{"ann", "bob"} {
		code, _, _ := send(app, "GET", "/", http.Header{"X-User": {user}, "X-Organisation": {"acme"}})
		fmt.Println(user, code)
	}
	// Output:
	// ann 200
	// bob 429
}

func send(app *fiber.App, method, target string, header http.Header) (code int, body string, _ http.Header) {
	req := httptest.NewRequest(method, target, nil)
	maps.Copy(req.Header, header)
	res, err := app.Test(req, -1)
	if err != nil {
		log.Fatal(err)
	}
	defer res.Body.Close()
	text, err := io.ReadAll(res.Body)
	if err != nil {
		log.Fatal(err)
	}
	return res.StatusCode, string(text), res.Header
}
