package httplimit_test

import (
	"fmt"
	"maps"
	"net/http"
	"net/http/httptest"

	"github.com/tokenbucket-go/ratelimit/core"
	"github.com/tokenbucket-go/ratelimit/httplimit"
)

func Example() {
	limiter := core.Must(core.NewLimiter(core.NewMemoryStore(), core.Policy{
		Name: "api", Limits: []core.Limit{core.PerHour(2)},
	}))
	mux := http.NewServeMux()
	mux.HandleFunc("GET /", func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, "hello") })
	handler := httplimit.New(limiter, httplimit.ByIP())(mux)

	for range 3 {
		w := send(handler, "GET", "/", nil)
		fmt.Println(w.Code, w.Header().Get("X-RateLimit-Remaining"), w.Header().Get("Content-Type"))
	}
	// Output:
	// 200 1 text/plain; charset=utf-8
	// 200 0 text/plain; charset=utf-8
	// 429 0 application/problem+json
}

// In front of a ServeMux no pattern has matched yet, so the key asks the mux.
func ExampleKeyFunc() {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /items/{id}", func(http.ResponseWriter, *http.Request) {})
	key := httplimit.Join(httplimit.ByRouteOf(mux), httplimit.ByHeader("X-Api-Key"))
	limiter := core.Must(core.NewLimiter(core.NewMemoryStore(), core.Policy{
		Name: "items", Limits: []core.Limit{core.PerHour(1)},
	}))
	handler := httplimit.New(limiter, key)(mux)

	fmt.Println(send(handler, "GET", "/items/1", http.Header{"X-Api-Key": {"k1"}}).Code)
	fmt.Println(send(handler, "GET", "/items/2", http.Header{"X-Api-Key": {"k1"}}).Code)
	fmt.Println(send(handler, "GET", "/items/3", http.Header{"X-Api-Key": {"k2"}}).Code)
	fmt.Println(send(handler, "GET", "/items/4", nil).Code)
	// Output:
	// 200
	// 429
	// 200
	// 400
}

// Limits depend on the user's plan.
func ExampleOption() {
	limiter := core.Must(core.NewLimiter(core.NewMemoryStore(), core.Policy{
		Name: "api", Limits: []core.Limit{core.PerHour(1)},
		Plans: map[string][]core.Limit{"paid": {core.PerHour(3)}},
	}))
	handler := httplimit.New(limiter, httplimit.ByHeader("X-Api-Key"),
		httplimit.WithPlan(func(r *http.Request) (string, error) {
			if r.Header.Get("X-Api-Key") == "paid" {
				return "paid", nil
			}
			return "", nil
		}),
	)(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))

	for _, key := range []string{"free", "free", "paid", "paid"} {
		fmt.Println(key, send(handler, "GET", "/", http.Header{"X-Api-Key": {key}}).Code)
	}
	// Output:
	// free 200
	// free 429
	// paid 200
	// paid 200
}

// Only failed logins count: a success returns its token.
func ExampleWithRefund() {
	limiter := core.Must(core.NewLimiter(core.NewMemoryStore(), core.Policy{
		Name: "login", Limits: []core.Limit{core.PerHour(2)},
	}))
	login := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.FormValue("password") != "right" {
			w.WriteHeader(http.StatusUnauthorized)
		}
	})
	handler := httplimit.New(limiter, httplimit.ByIP(),
		httplimit.WithRefund(func(_ *http.Request, status int) bool { return status < 400 }))(login)

	for _, password := range []string{"right", "wrong", "wrong", "right"} {
		fmt.Println(send(handler, "POST", "/?password="+password, nil).Code)
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
	limit := httplimit.NewTogether([]httplimit.Rule{
		{Limiter: limiter("user", 5), Key: httplimit.ByHeader("X-User")},
		{Limiter: limiter("organisation", 1), Key: httplimit.ByHeader("X-Organisation")},
	})
	handler := limit(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))

	for _, user := range []string{"ann", "bob"} {
		fmt.Println(user, send(handler, "GET", "/", http.Header{"X-User": {user}, "X-Organisation": {"acme"}}).Code)
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
