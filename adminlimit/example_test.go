package adminlimit_test

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"

	"github.com/tokenbucket-go/ratelimit/adminlimit"
	"github.com/tokenbucket-go/ratelimit/core"
	"github.com/tokenbucket-go/ratelimit/core/denied"
)

// The app says who asks, here by a password. The page is then at /admin/limits.
func Example() {
	top := core.Must(denied.New())
	limiter := core.Must(core.NewLimiter(core.NewMemoryStore(), core.Policy{
		Name: "login", Limits: []core.Limit{core.PerHour(5)},
	}, core.WithObserver(top.Observe)))
	authorise := func(r *http.Request) (who string, ok bool) {
		user, password, _ := r.BasicAuth()
		return user, user == "ann" && password == "secret" // a real one compares hashes, in constant time
	}
	http.Handle("/admin/limits", adminlimit.New(authorise,
		adminlimit.Limiters(limiter), adminlimit.WithDenied(top), adminlimit.Writable(), adminlimit.WithChallenge(`Basic realm="limits"`)))

	r := httptest.NewRequest(http.MethodPost, "/admin/limits", strings.NewReader("action=peek&policy=login&key=ip:192.0.2.1"))
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

// Programs get JSON.
func ExampleHandler() {
	limiter := core.Must(core.NewLimiter(core.NewMemoryStore(), core.Policy{Name: "login", Limits: []core.Limit{core.PerHour(5)}}))
	ann := func(*http.Request) (string, bool) { return "ann", true }
	server := httptest.NewServer(adminlimit.New(ann, adminlimit.Limiters(limiter), adminlimit.Writable()))
	defer server.Close()
	resp, err := http.PostForm(server.URL, url.Values{"action": {"shadow-on"}, "policy": {"login"}})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer resp.Body.Close()
	text, _ := io.ReadAll(resp.Body)
	_, text2, _ := strings.Cut(string(text), `"done": `)
	fmt.Println(text2[:strings.Index(text2, "}")+1])
	// Output:
	// {
	//     "action": "shadow-on",
	//     "by": "ann",
	//     "policy": "login",
	//     "before": "off",
	//     "after": "on",
	//     "note": "in this process, until its next reload or start"
	//   }
}

// Whoever has another role is known, and must not look.
func ExampleAuthorise() {
	var authorise adminlimit.Authorise = func(r *http.Request) (who string, ok bool) {
		who = r.Header.Get("X-User") // as a gateway of your own sets it
		return who, who == "ann"
	}
	limiter := core.Must(core.NewLimiter(core.NewMemoryStore(), core.Policy{Name: "login", Limits: []core.Limit{core.PerHour(5)}}))
	h := adminlimit.New(authorise, adminlimit.Limiters(limiter))
	for _, user := range []string{"", "bob", "ann"} {
		r := httptest.NewRequest(http.MethodGet, "/admin/limits", nil)
		r.Header.Set("X-User", user)
		w := httptest.NewRecorder()
		h.ServeHTTP(w, r)
		fmt.Println(w.Code)
	}
	// Output:
	// 403
	// 403
	// 200
}

// New panics with all mistakes.
func ExampleOption() {
	options := []adminlimit.Option{adminlimit.WithPolicyFile(""), adminlimit.WithRedisStore("main", nil)}
	defer func() {
		first, _, _ := strings.Cut(fmt.Sprint(recover()), "\n")
		fmt.Println(first)
	}()
	adminlimit.New(nil, options...)
	// Output: ratelimit: adminlimit.New authorise: <nil> must be a function that says who sent a request: there is no default (RL321)
}
