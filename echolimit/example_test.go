package echolimit_test

import (
	"fmt"
	"maps"
	"net/http"
	"net/http/httptest"
	"strings"

	"github.com/labstack/echo/v4"

	"github.com/tokenbucket-go/ratelimit/core"
	"github.com/tokenbucket-go/ratelimit/echolimit"
)

// A denial is an echo.HTTPError. The app's error handler renders it.
func Example() {
	limiter := core.Must(core.NewLimiter(core.NewMemoryStore(), core.Policy{
		Name: "api", Limits: []core.Limit{core.PerHour(2)},
	}))
	e := echo.New()
	e.Use(echolimit.New(limiter, echolimit.ByIP()))
	e.GET("/", func(c echo.Context) error { return c.String(http.StatusOK, "hello") })

	for range 3 {
		w := send(e, "GET", "/", nil)
		mediaType, _, _ := strings.Cut(w.Header().Get("Content-Type"), ";")
		fmt.Println(w.Code, w.Header().Get("X-RateLimit-Remaining"), mediaType)
	}
	// Output:
	// 200 1 text/plain
	// 200 0 text/plain
	// 429 0 application/json
}

// A key function of your own takes echo's context. Here it returns the user
// that earlier middleware found.
func ExampleKeyFunc() {
	var byUser echolimit.KeyFunc = func(c echo.Context) (string, error) {
		user, _ := c.Get("user").(string)
		if user == "" {
			return "", core.ErrNoKey // answered with 400, unless FirstOf tries another key
		}
		return core.JoinKey("user", user), nil
	}
	limiter := core.Must(core.NewLimiter(core.NewMemoryStore(), core.Policy{
		Name: "reports", Limits: []core.Limit{core.PerHour(1)},
	}))
	e := echo.New()
	e.Use(func(next echo.HandlerFunc) echo.HandlerFunc {
		return func(c echo.Context) error {
			c.Set("user", c.Request().Header.Get("X-User"))
			return next(c)
		}
	})
	e.GET("/reports/:id", func(c echo.Context) error { return c.NoContent(http.StatusOK) },
		echolimit.New(limiter, echolimit.Join(echolimit.ByRoute(), byUser)))

	for _, user := range []string{"ada", "ada", "grace", ""} {
		fmt.Println(send(e, "GET", "/reports/1", http.Header{"X-User": {user}}).Code)
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
	e := echo.New()
	e.POST("/login", func(c echo.Context) error {
		if c.QueryParam("password") != "right" {
			return echo.ErrUnauthorized
		}
		return c.NoContent(http.StatusNoContent)
	}, echolimit.New(limiter, echolimit.ByIP(),
		echolimit.WithRefund(func(_ echo.Context, status int) bool { return status < 400 }),
		echolimit.OnDenied(func(c echo.Context, res core.Result) error {
			return c.JSON(http.StatusTooManyRequests, core.Problem(res).ViolatedPolicies)
		}),
	))

	for _, password := range []string{"right", "wrong", "wrong", "right"} {
		fmt.Println(send(e, "POST", "/login?password="+password, nil).Code)
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
	limit := echolimit.NewTogether([]echolimit.Rule{
		{Limiter: limiter("user", 5), Key: echolimit.ByHeader("X-User")},
		{Limiter: limiter("organisation", 1), Key: echolimit.ByHeader("X-Organisation")},
	})
	e := echo.New()
	e.GET("/", func(c echo.Context) error { return c.NoContent(http.StatusOK) }, limit)

	for _, user := range []string{"ann", "bob"} {
		fmt.Println(user, send(e, "GET", "/", http.Header{"X-User": {user}, "X-Organisation": {"acme"}}).Code)
	}
	// Output:
	// ann 200
	// bob 429
}

func send(h http.Handler, method, target string, header http.Header) *httptest.ResponseRecorder {
	req := httptest.NewRequest(method, target, nil)
	maps.Copy(req.Header, header)
	w := httptest.NewRecorder()
	h.ServeHTTP(w, req)
	return w
}
