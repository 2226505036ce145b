package adminlimit_test

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"

	"github.com/tokenbucket-go/ratelimit/adminlimit"
	"github.com/tokenbucket-go/ratelimit/core"
)

// The app says who asks, here by a password. The page is then at /admin/limits.
func Example() {
	var top adminlimit.Top
	limiter := core.Must(core.NewLimiter(core.NewMemoryStore(), core.Policy{
		Name: "login", Limits: []core.Limit{core.PerHour(5)},
	}, core.WithObserver(top.Observe)))
	authorise := func(r *http.Request) (who string, ok bool) {
		user, password, _ := r.BasicAuth()
		return user, user == "ann" && password == "secret" // a real one compares hashes, in constant time
	}
	http.Handle("/admin/limits", core.Must(adminlimit.New(authorise, adminlimit.Config{
		Limiters: []*core.Limiter{limiter}, Denied: &top, Writable: true, Challenge: `Basic realm="limits"`,
	})))

	r := httptest.NewRequest(http.MethodPost, "/admin/limits", strings.NewReader("action=look&policy=login&key=ip:192.0.2.1"))
	r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	w := httptest.NewRecorder()
	http.DefaultServeMux.ServeHTTP(w, r)
	fmt.Println(w.Code)
	r.SetBasicAuth("ann", "secret")
	w = httptest.NewRecorder()
	http.DefaultServeMux.ServeHTTP(w, r)
	fmt.Println(w.Code)
	// Output:
	// 401
	// 200
}

// Programs read the JSON into a State.
func ExampleState() {
	limiter := core.Must(core.NewLimiter(core.NewMemoryStore(), core.Policy{Name: "login", Limits: []core.Limit{core.PerHour(5)}}))
	ann := func(*http.Request) (string, bool) { return "ann", true }
	server := httptest.NewServer(core.Must(adminlimit.New(ann, adminlimit.Config{Limiters: []*core.Limiter{limiter}})))
	defer server.Close()
	resp, err := http.Get(server.URL)
	if err != nil {
		fmt.Println(err)
		return
	}
	defer resp.Body.Close()
	var state adminlimit.State
	if err := json.NewDecoder(resp.Body).Decode(&state); err != nil {
		fmt.Println(err)
	}
	for _, policy := range state.InForce {
		fmt.Println(policy.Name, policy.Limits)
	}
	// Output: login [5/h]
}

// Without a page, a report can be logged.
func ExampleTop() {
	var top adminlimit.Top
	limiter := core.Must(core.NewLimiter(core.NewMemoryStore(), core.Policy{
		Name: "login", Limits: []core.Limit{core.PerHour(2)},
	}, core.WithObserver(top.Observe)))
	for _, user := range []string{"ann", "bob", "bob", "bob", "bob", "ann", "ann"} {
		_, _ = limiter.Allow(context.Background(), "user:"+user)
	}
	for _, policy := range top.Report() {
		fmt.Println(policy.Policy, "denied", policy.Denied)
		for _, key := range policy.Keys {
			fmt.Println(key.Key, key.AtLeast)
		}
	}
	// Output:
	// login denied 3
	// user:bob 2
	// user:ann 1
}
