package chilimit_test

import (
	"fmt"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"

	"github.com/go-chi/chi/v5"
	"github.com/go-chi/chi/v5/middleware"

	"github.com/tokenbucket-go/ratelimit/chilimit"
	"github.com/tokenbucket-go/ratelimit/core/adapter"
)

// seen is what the limiters and the handler read from one request.
type seen struct {
	routes  []string // the key by route of each limiter
	places  []string
	params  [][]string // the keys by parameter of each limiter
	routed  bool
	mounted bool     // a handler that is not a chi.Routes is mounted: chi hides the rest of the path from it
	pattern string   // RoutePattern() at the handler
	values  []string // the parameters there
}

var params = []string{"id", "v", "*"}

// randomApp builds routers with random patterns and limiters in many places.
type randomApp struct {
	*rand.Rand

	byRoute  chilimit.KeyFunc
	byParam  []chilimit.KeyFunc
	patterns []string // whole patterns, to build requests from
	seen     seen
}

// limit is middleware that records the keys a limiter would use in its place.
func (a *randomApp) limit(place string) func(http.Handler) http.Handler {
	return func(next http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			key, err := a.byRoute(r)
			if err != nil {
				panic(err)
			}
			var values []string
			for _, by := range a.byParam {
				k, _ := by(r)
				values = append(values, k)
			}
			a.seen.routes, a.seen.places, a.seen.params = append(a.seen.routes, key), append(a.seen.places, place), append(a.seen.params, values)
			next.ServeHTTP(w, r)
		})
	}
}

func (a *randomApp) handle(_ http.ResponseWriter, r *http.Request) {
	a.seen.routed = true
	a.seen.pattern = chi.RouteContext(r.Context()).RoutePattern()
	for _, name := range params {
		value := chi.URLParam(r, name)
		if r.URL.RawPath != "" {
			if decoded, err := url.PathUnescape(value); err == nil {
				value = decoded
			}
		}
		a.seen.values = append(a.seen.values, value)
	}
}

// pattern returns a random pattern. Only patterns of routes have endings.
func (a *randomApp) pattern(endings bool) string {
	pieces := []string{"/a", "/b", "/a-b", "/{id}", "/{id:[0-9]+}", "/{v}", "/x{v}", "/{v:[a-z]{1,2}}", "/login"}
	var b strings.Builder
	for range 1 + a.IntN(2) {
		piece := pieces[a.IntN(len(pieces))]
		if strings.Contains(piece, "{id") && strings.Contains(b.String(), "{id") || strings.Contains(piece, "{v") && strings.Contains(b.String(), "{v") {
			continue // chi allows each parameter once
		}
		b.WriteString(piece)
	}
	if !endings {
		return b.String()
	}
	switch a.IntN(6) {
	case 0:
		return "/"
	case 1:
		return b.String() + "/"
	case 2:
		return b.String() + "/*"
	case 3:
		return "/*"
	}
	return b.String()
}

// fill adds routes, groups and mounts to r. prefix is where r is mounted.
func (a *randomApp) fill(r chi.Router, prefix string, depth int) {
	for range 2 + a.IntN(4) {
		a.try(func() {
			switch a.IntN(7) {
			case 0, 1:
				p := a.pattern(true)
				r.With(a.limit("at a route")).Get(p, a.handle)
				a.patterns = append(a.patterns, prefix+p)
			case 2:
				p := a.pattern(true)
				r.With(a.limit("at a route")).HandleFunc(p, a.handle)
				a.patterns = append(a.patterns, prefix+p)
			case 3:
				r.Group(func(r chi.Router) {
					r.Use(a.limit("in a group"))
					p := a.pattern(true)
					r.Post(p, a.handle)
					a.patterns = append(a.patterns, prefix+p)
				})
			case 4:
				p := a.pattern(true)
				r.Mount(strings.TrimSuffix(p, "/*")+"/h", a.limit("in a mounted handler")(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
					a.handle(w, r)
					a.seen.mounted = true
				})))
				a.patterns = append(a.patterns, prefix+strings.TrimSuffix(p, "/*")+"/h/*")
			default:
				if depth == 0 {
					return
				}
				p := a.pattern(false)
				if a.IntN(4) == 0 {
					p = "/"
				}
				sub := chi.NewRouter()
				sub.Use(a.limit("in a mounted router"))
				a.fill(sub, prefix+strings.TrimSuffix(p, "/"), depth-1)
				if a.IntN(2) == 0 {
					r.Mount(p, sub)
				} else {
					r.With(a.limit("in front of a mount")).Mount(p, sub)
				}
				a.patterns = append(a.patterns, prefix+p)
			}
		})
	}
}

// try calls add and ignores its panic: chi refuses, for example, two mounts of
// one pattern.
func (a *randomApp) try(add func()) {
	defer func() { _ = recover() }()
	add()
}

// target returns a path that one of the patterns may match.
func (a *randomApp) target() string {
	p := a.patterns[a.IntN(len(a.patterns))]
	values := []string{"7", "42", "ab", "a", "b", "login", "a%2Fb", "%61", "x"}
	var b strings.Builder
	depth := 0
	for _, c := range p {
		switch {
		case c == '{':
			if depth++; depth == 1 {
				b.WriteString(values[a.IntN(len(values))])
			}
		case c == '}':
			depth--
		case depth > 0:
		case c == '*':
			for i := range a.IntN(3) {
				if i > 0 {
					b.WriteByte('/')
				}
				b.WriteString(values[a.IntN(len(values))])
			}
		default:
			b.WriteRune(c)
		}
	}
	path := b.String()
	switch a.IntN(6) {
	case 0:
		path += "/"
	case 1:
		path = strings.TrimSuffix(path, "/")
	case 2:
		path += "/" + values[a.IntN(len(values))]
	}
	if path == "" {
		path = "/"
	}
	return path
}

// check compares what limiters saw of a request with the pattern and the
// parameters at its handler.
func (a *randomApp) check(t *testing.T, request, want string, places map[string]int) {
	t.Helper()
	for i, got := range a.seen.routes {
		if places[a.seen.places[i]]++; got != want {
			t.Errorf("%s, limiter %s: the key is %q, want %q", request, a.seen.places[i], got, want)
		}
		if !a.seen.routed {
			continue
		}
		for j, name := range params {
			if name == "*" && a.seen.mounted {
				continue
			}
			want := ""
			if v := a.seen.values[j]; v != "" {
				want = adapter.Key("param:"+name, v)
			}
			if got := a.seen.params[i][j]; got != want {
				t.Errorf("%s, limiter %s: the key by %s is %q, want %q", request, a.seen.places[i], name, got, want)
			}
		}
	}
}

// Wherever a limiter stands in a random router, ByRoute returns what
// RoutePattern returns at the handler, and ByParam returns the handler's
// parameters. Requests that match no route share one key.
func TestByRouteIsThePatternAtTheHandler(t *testing.T) {
	routed, unrouted, places := 0, 0, make(map[string]int)
	for seed := range uint64(600) {
		a := &randomApp{Rand: rand.New(rand.NewPCG(seed, 1)), byRoute: chilimit.ByRoute()}
		for _, name := range params {
			a.byParam = append(a.byParam, chilimit.ByParam(name))
		}
		root := chi.NewRouter()
		switch a.IntN(4) {
		case 0:
			root.Use(middleware.StripSlashes)
		case 1:
			root.Use(middleware.CleanPath, middleware.GetHead)
		}
		root.Use(a.limit("in the root"))
		a.fill(root, "", 3)
		if len(a.patterns) == 0 {
			continue
		}
		for range 60 {
			method, target := []string{"GET", "GET", "POST", "HEAD", "FOO"}[a.IntN(5)], a.target()
			a.seen = seen{}
			root.ServeHTTP(httptest.NewRecorder(), httptest.NewRequest(method, target, nil))
			want := "route:"
			if a.seen.routed {
				routed++
				want = adapter.Key("route", a.seen.pattern)
			} else {
				unrouted++
			}
			a.check(t, fmt.Sprintf("seed %d: %s %s", seed, method, target), want, places)
			if t.Failed() && testing.Verbose() {
				t.Log(fmt.Sprint(a.patterns))
			}
			if t.Failed() {
				return
			}
		}
	}
	t.Logf("%d requests were routed, %d were not; limiters by place: %v", routed, unrouted, places)
	if routed < 5000 || unrouted < 1000 || len(places) < 6 {
		t.Errorf("the premise: thousands of requests of both kinds, in every place")
	}
}
