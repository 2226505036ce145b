package echolimit_test

import (
	"fmt"
	"net/http"
	"net/http/httptest"

	"github.com/labstack/echo/v5"

	"github.com/tokenbucket-go/ratelimit/core"
	"github.com/tokenbucket-go/ratelimit/echolimit/v5"
)

func Example() {
	limiter := core.Must(core.NewLimiter(core.NewMemoryStore(), core.Policy{
		Name: "api", Limits: []core.Limit{core.PerHour(2)},
	}))
	e := echo.New()
	e.Use(echolimit.New(limiter, echolimit.ByHeader("X-Api-Key")))
	e.GET("/", func(c *echo.Context) error {
		res, _ := echolimit.FromContext(c)
		return c.String(http.StatusOK, fmt.Sprintf("%d left", res.Remaining))
	})

	for _, key := range []string{"ann", "ann", "ann", "bob", ""} {
		req := httptest.NewRequest(http.MethodGet, "/", nil)
		req.Header.Set("X-Api-Key", key)
		rec := httptest.NewRecorder()
		e.ServeHTTP(rec, req)
		if rec.Code == http.StatusOK {
			fmt.Println(rec.Code, rec.Body)
			continue
		}
		fmt.Println(rec.Code, rec.Header().Get("X-RateLimit-Remaining"))
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
	limit := echolimit.NewTogether([]echolimit.Rule{
		{Limiter: limiter("user", 5), Key: echolimit.ByHeader("X-User")},
		{Limiter: limiter("organisation", 1), Key: echolimit.ByHeader("X-Organisation")},
	})
	e := echo.New()
	e.GET("/", func(c *echo.Context) error { return c.NoContent(http.StatusOK) }, limit)

	for _, user := range []string{"ann", "bob"} {
		req := httptest.NewRequest(http.MethodGet, "/", nil)
		req.Header = http.Header{"X-User": {user}, "X-Organisation": {"acme"}}
		rec := httptest.NewRecorder()
		e.ServeHTTP(rec, req)
		fmt.Println(user, rec.Code)
	}
	// Output:
	// ann 200
	// bob 429
}
