package main

import (
	"net/http"
	"slices"

	"github.com/tokenbucket-go/ratelimit/core"
	"github.com/tokenbucket-go/ratelimit/httplimit"
)

// framework is one of those that serve the endpoint.
type framework struct {
	name string
	app  func(*core.Limiter, settings) http.Handler
}

// What the page says where there is no server, of what stands in.
const (
	placeInPage   = "buckets in this page"
	throughInPage = "Here net/http serves each request. The other frameworks need a clone of the repository, and there: go run ./examples/demo"
	redisInPage   = "played by a store in this page; a clone of the repository has a real one"
)

// serves reports whether a framework is one of those.
func serves(name string) bool {
	return slices.ContainsFunc(frameworks, func(f framework) bool { return f.name == name })
}

// hello is what the endpoint answers.
type hello struct {
	Hello     string `json:"hello"`
	Framework string `json:"framework"`
	Source    string `json:"source"` // who decided
}

func httpApp(l *core.Limiter, s settings) http.Handler {
	return httplimit.New(l, httpKey(s.Key),
		httplimit.WithCost(func(*http.Request) (int64, error) { return s.Cost, nil }),
		httplimit.WithUnits(func(*http.Request) (core.Units, error) { return s.charged(), nil }),
		httplimit.WithSettle(func(*http.Request, int) core.Units { return s.used() }),
	)(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		s.work()
		res, _ := httplimit.FromContext(r.Context())
		writeJSON(w, http.StatusOK, hello{r.Header.Get(userHeader), "http", res.Source.String()})
	}))
}

// httpKey is the key function of net/http, and tells the page which bucket a request of any framework uses.
func httpKey(by string) httplimit.KeyFunc {
	return map[string]httplimit.KeyFunc{"client": httplimit.Global("demo"), "user": httplimit.ByHeader(userHeader), "ip": httplimit.ByIP()}[by]
}
