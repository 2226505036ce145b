package ginlimit_test

import (
	"fmt"
	"maps"
	"net/http"
	"net/http/httptest"

	"github.com/gin-gonic/gin"

	"github.com/tokenbucket-go/ratelimit/core"
	"github.com/tokenbucket-go/ratelimit/ginlimit"
)

func Example() {
	limiter := core.Must(core.NewLimiter(core.NewMemoryStore(), core.Policy{
		Name: "api", Limits: []core.Limit{core.PerHour(2)},
	}))
	r := gin.New()
	r.Use(ginlimit.New(limiter, ginlimit.ByIP()))
	r.GET("/", func(c *gin.Context) { c.String(http.StatusOK, "hello") })

	for range 3 {
		w := send(r, "GET", "/", nil)
		fmt.Println(w.Code, w.Header().Get("X-RateLimit-Remaining"), w.Header().Get("Content-Type"))
	}
	// Output:
	// 200 1 text/plain; charset=utf-8
	// 200 0 text/plain; charset=utf-8
	// 429 0 application/problem+json
}

// Each client address may send two requests at once, and two an hour.
func ExamplePerIP() {
	r := gin.New()
	r.Use(ginlimit.PerIP(core.PerHour(2)))
	r.GET("/", func(c *gin.Context) { c.String(http.StatusOK, "hello") })

	for range 3 {
		w := send(r, "GET", "/", nil)
		fmt.Println(w.Code, w.Header().Get("X-RateLimit-Remaining"), w.Header().Get("RateLimit-Policy"))
	}
	// Output:
	// 200 1 "2/h";q=2;w=3600
	// 200 0 "2/h";q=2;w=3600
	// 429 0 "2/h";q=2;w=3600
}

// A key function of your own takes gin's context. Here it returns the user that
// earlier middleware found.
func ExampleKeyFunc() {
	var byUser ginlimit.KeyFunc = func(c *gin.Context) (string, error) {
		user := c.GetString("user")
		if user == "" {
			return "", core.ErrNoKey // answered with 400, unless FirstOf tries another key
		}
		return core.JoinKey("user", user), nil
	}
	limiter := core.Must(core.NewLimiter(core.NewMemoryStore(), core.Policy{
		Name: "reports", Limits: []core.Limit{core.PerHour(1)},
	}))
	r := gin.New()
	r.Use(func(c *gin.Context) { c.Set("user", c.GetHeader("X-User")) })
	r.GET("/reports/:id", ginlimit.New(limiter, ginlimit.Join(ginlimit.ByRoute(), byUser)), func(*gin.Context) {})

	for _, user := range []string{"ada", "ada", "grace", ""} {
		fmt.Println(send(r, "GET", "/reports/1", http.Header{"X-User": {user}}).Code)
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
	r := gin.New()
	r.POST("/login", ginlimit.New(limiter, ginlimit.ByIP(),
		ginlimit.WithRefund(func(_ *gin.Context, status int) bool { return status < 400 }),
		ginlimit.OnDenied(func(c *gin.Context, _ core.Result) {
			c.JSON(http.StatusTooManyRequests, gin.H{"error": "too many attempts"})
		}),
	), func(c *gin.Context) {
		if c.Query("password") != "right" {
			c.Status(http.StatusUnauthorized)
		}
	})

	for _, password := range []string{"right", "wrong", "wrong", "right"} {
		fmt.Println(send(r, "POST", "/login?password="+password, nil).Code)
	}
	// Output:
	// 200
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
	limit := ginlimit.NewTogether([]ginlimit.Rule{
		{Limiter: limiter("user", 5), Key: ginlimit.ByHeader("X-User")},
		{Limiter: limiter("organisation", 1), Key: ginlimit.ByHeader("X-Organisation")},
	})
	r := gin.New()
	r.GET("/", limit, func(*gin.Context) {})

	for _, user := range []string{"ann", "bob"} {
		fmt.Println(user, send(r, "GET", "/", http.Header{"X-User": {user}, "X-Organisation": {"acme"}}).Code)
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
