package chilimit_test

import (
	"fmt"
	"maps"
	"net/http"
	"net/http/httptest"

	"github.com/go-chi/chi/v5"

	"github.com/tokenbucket-go/ratelimit/chilimit"
	"github.com/tokenbucket-go/ratelimit/core"
)

func Example() {
	limiter := core.Must(core.NewLimiter(core.NewMemoryStore(), core.Policy{
		Name: "api", Limits: []core.Limit{core.PerHour(2)},
	}))
	r := chi.NewRouter()
	r.Use(chilimit.New(limiter, chilimit.ByIP()))
	r.Get("/", func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, "hello") })

	for range 3 {
		w := send(r, "GET", "/", nil)
		fmt.Println(w.Code, w.Header().Get("X-RateLimit-Remaining"), w.Header().Get("Content-Type"))
	}
	// Output:
	// 200 1 text/plain; charset=utf-8
	// 200 0 text/plain; charset=utf-8
	// 429 0 application/problem+json
}

// The key is the API key, or else the address. ByRoute knows the whole pattern,
// even in Use of the root router.
func ExampleKeyFunc() {
	who := chilimit.FirstOf(chilimit.ByHeader("X-Api-Key"), chilimit.ByIP())
	limiter := core.Must(core.NewLimiter(core.NewMemoryStore(), core.Policy{
		Name: "items", Limits: []core.Limit{core.PerHour(1)},
	}))
	r := chi.NewRouter()
	r.Use(chilimit.New(limiter, chilimit.Join(chilimit.ByRoute(), who)))
	r.Get("/items/{id}", func(http.ResponseWriter, *http.Request) {})

	fmt.Println(send(r, "GET", "/items/1", http.Header{"X-Api-Key": {"k1"}}).Code)
	fmt.Println(send(r, "GET", "/items/2", http.Header{"X-Api-Key": {"k1"}}).Code)
	fmt.Println(send(r, "GET", "/items/3", http.Header{"X-Api-Key": {"k2"}}).Code)
	fmt.Println(send(r, "GET", "/items/4", nil).Code)
	// Output:
	// 200
	// 429
	// 200
	// 200
}

// Only failed logins count, and health checks not at all.
func ExampleOption() {
	limiter := core.Must(core.NewLimiter(core.NewMemoryStore(), core.Policy{
		Name: "login", Limits: []core.Limit{core.PerHour(2)},
	}))
	r := chi.NewRouter()
	r.Use(chilimit.New(limiter, chilimit.ByIP(),
		chilimit.WithSkip(func(r *http.Request) bool { return r.URL.Path == "/healthz" }),
		chilimit.WithRefund(func(_ *http.Request, status int) bool { return status < 400 }),
	))
	r.Get("/healthz", func(http.ResponseWriter, *http.Request) {})
	r.Post("/login", func(w http.ResponseWriter, r *http.Request) {
		if r.FormValue("password") != "right" {
			w.WriteHeader(http.StatusUnauthorized)
		}
	})

	for _, password := range []string{"right", "wrong", "wrong", "right"} {
		fmt.Println(send(r, "POST", "/login?password="+password, nil).Code)
	}
	fmt.Println(send(r, "GET", "/healthz", nil).Code)
	// Output:
	// 200
	// 401
	// 401
	// 429
	// 200
}

// The user and the organisation pay both, or none of them. Here the
// organisation denies the second user.
func ExampleRule() {
	store := core.NewMemoryStore()
	limiter := func(name string, perHour int) *core.Limiter {
		return core.Must(core.NewLimiter(store, core.Policy{Name: name, Limits: []core.Limit{core.PerHour(perHour)}}))
	}
	limit := chilimit.NewTogether([]chilimit.Rule{
		{Limiter: limiter("user", 5), Key: chilimit.ByHeader("X-User")},
		{Limiter: limiter("organisation", 1), Key: chilimit.ByHeader("X-Organisation")},
	})
	r := chi.NewRouter()
	r.With(limit).Get("/", func(http.ResponseWriter, *http.Request) {})

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
