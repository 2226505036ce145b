package adaptertest

import (
	"context"
	"fmt"
	"net/http"
	"strings"

	"github.com/tokenbucket-go/ratelimit/core"
	httpadapter "github.com/tokenbucket-go/ratelimit/core/adapter"
	"github.com/tokenbucket-go/ratelimit/internal/logtest"
)

// host checks ByHeader("Host"). If the request line has a whole URL, the Host
// field does not count (RFC 9112, section 3.2.2). Otherwise clients could
// choose their key.
func (s *suite) host() {
	s.rule("ByHeader reads Host from the request line if it has a whole URL", func(c *trial) {
		app := c.use(c.holding(1), c.kit.ByHeader("Host"))
		for i, host := range []string{"app.test", "one.test", "two.test"} {
			got := app.raw("GET http://app.test/other HTTP/1.1\r\nHost: " + host + "\r\nConnection: close\r\n\r\n")
			if want := http.StatusTooManyRequests; i > 0 {
				c.wantStatus(got, want, "the same URL with another Host field")
			} else {
				c.wantStatus(got, http.StatusOK, "the first")
			}
		}
		c.wantStatus(app.send(request{}), http.StatusTooManyRequests, "the same host, only in the field")
		c.wantStatus(app.raw("GET /other HTTP/1.1\r\nHost: App.TEST\r\nConnection: close\r\n\r\n"), http.StatusTooManyRequests, "the same host in capitals")
	})
}

// route checks ByRoute.
func (s *suite) route() {
	s.routeKeys()
	s.routeWarnings()
}

const get = http.MethodGet

func item(method, target string) request { return request{method: method, target: target} }

// places returns where ByRoute knows the route.
func (s *suite) places() []place {
	if s.kit.RouteKnownInUse {
		return []place{inRoute, inUse}
	}
	return []place{inRoute}
}

// routeKeys checks the keys of ByRoute.
func (s *suite) routeKeys() {
	key := s.kit.ByRoute()
	for _, p := range s.places() {
		s.groupings([]grouping{
			{"ByRoute gives all paths of a pattern one bucket, " + string(p), p, true, of(key,
				item(get, "/items/1"), item(get, "/items/2"), item(get, "/items/3?q=1"))},
			{"ByRoute ignores the method, " + string(p), p, true, of(key,
				item(get, "/items/1"), item(http.MethodPost, "/items/2"), item(http.MethodHead, "/items/3"))},
			{"ByRoute gives each pattern its own bucket, " + string(p), p, false, of(key, item(get, "/items/1"), item(get, "/other"))},
			{"Join of method and route gives each pair its own bucket, " + string(p), p, false, of(s.kit.Join(s.kit.ByMethod(), key),
				item(get, "/items/1"), item(get, "/other"), item(http.MethodPost, "/items/1"))},
		})
	}
	if s.kit.RouteKnownInUse {
		s.groupings([]grouping{
			{"requests that match no route share one key, so clients can't make up keys", inUse, true, of(key,
				item(get, "/nowhere"), item(get, "/nowhere/else"), item(get, "/other/1"), item(get, "/another"))},
			{"requests that match no route don't take tokens from a route's bucket", inUse, false, of(key,
				item(get, "/nowhere"), item(get, "/items/1"), item(get, "/other"))},
		})
	}
}

// routeWarnings checks what ByRoute logs, and its marker.
func (s *suite) routeWarnings() {
	key := s.kit.ByRoute()
	s.rule("ByRoute without a known route logs one warning with advice, for a request that was answered", func(c *trial) {
		if s.kit.RouteKnownInUse {
			return // the route of an answered request is known
		}
		log := logtest.Capture(func() {
			app := c.use(c.holding(10), s.kit.Join(key, s.kit.ByIP()))
			c.wantStatus(app.send(item(get, "/nowhere")), http.StatusNotFound, "no route")
			for range 3 {
				c.wantStatus(app.send(item(get, "/items/1")), http.StatusOK, "an item")
			}
		})
		if n := strings.Count(log, "ByRoute found no route here"); n != 1 || !strings.Contains(log, s.kit.RouteAdvice) || !strings.Contains(log, "/items/1") {
			c.errorf("want one warning, for /items/1, that says %q; got %q", s.kit.RouteAdvice, log)
		}
	})
	s.rule("ByRoute with known routes logs nothing", func(c *trial) {
		log := logtest.Capture(func() {
			for _, p := range s.places() {
				app := c.open(visit{key: key, request: item(get, "/items/1")}, p, middleware{Limiter: c.holding(10)})
				c.wantStatus(app(), http.StatusOK, string(p))
				if p == inUse {
					app = c.open(visit{key: key, request: item(get, "/nowhere")}, p, middleware{Limiter: c.holding(10)})
					c.wantStatus(app(), http.StatusNotFound, "no route")
				}
			}
		})
		if log != "" {
			c.errorf("it logged %q", log)
		}
	})
	s.rule("the marker of ByRoute does not hide an outer limiter's decision", func(c *trial) {
		outer := middleware{c.limiter(core.Policy{Name: "outer", Limits: []core.Limit{slow(5)}}), s.kit.Global("all"), nil, nil, nil, nil}
		skipped := middleware{c.limiter(core.Policy{Name: "inner", Shadow: true, Limits: []core.Limit{slow(5)}}), s.kit.Join(key, s.kit.ByHeader("User")), nil, nil, nil, nil}
		app := c.serve(c.app(answer(http.StatusOK), outer, skipped))
		c.wantRemaining(app.send(request{}), 4, "the inner limiter makes no decision")
	})
}

// agreement checks that the app and its limiter see the same client: an
// extractor must read the value that the framework gives its handlers, for any
// spelling of the request.
func (s *suite) agreement() {
	k := s.kit
	raw := func(fields ...string) string {
		return "GET /other HTTP/1.1\r\nHost: app.test\r\nConnection: close\r\n" + strings.Join(append(fields, ""), "\r\n") + "\r\n"
	}
	query := func(q string) string {
		return "GET /other?" + q + " HTTP/1.1\r\nHost: app.test\r\nConnection: close\r\n\r\n"
	}
	for _, kind := range []struct {
		kind     string
		ours     anyKey
		theirs   anyKey
		requests []string
	}{
		{"cookie", k.ByCookie("s"), k.ReadCookie("s"), []string{
			raw("Cookie: s=abc"), raw("Cookie: s=%61bc"), raw("Cookie: s=a+b"), raw("Cookie: s=a%2Bb"), raw("Cookie: s=%zz"), raw(`Cookie: s="abc"`),
			raw("Cookie: s=a; s=b"), raw("Cookie: s=; s=b"), raw("Cookie: S=a; s=b"), raw("Cookie: s=a", "Cookie: s=b"), raw("cookie: s=a", "COOKIE: s=b"),
			raw("Cookie: x=1;s=a"), raw("Cookie:   s =a"), raw("Cookie: s= a"), raw("Cookie: s=a=b"), raw("Cookie: s=a,b"), raw("Cookie: s"), raw("Cookie: $s=a; s=b"), raw("X: y"),
		}},
		{"header", k.ByHeader("User"), k.ReadHeader("User"), []string{
			raw("User: ann"), raw("user: ann"), raw("USER: ann"), raw("User:ann"), raw("User: \t ann  "), raw("User: %61nn"), raw("User: a, b"), raw("User:"), raw("X: y"),
			raw("User: ann", "User: ann"), raw("X-User: bob", "User: ann"), raw("User_: bob", "User: ann"), raw("User: \xe4"),
		}},
		{"query", k.ByQuery("q"), k.ReadQuery("q"), []string{
			query("q=abc"), query("q=%61bc"), query("%71=abc"), query("q=a+b"), query("q=a%2Bb"), query("q=a%20b"), query("q=a&q=b"), query("q=&q=b"), query("q"),
			query("Q=a&q=b"), query("q=%zz&q=b"), query("q=a;b&q=c"), query("q=a%00b"), query("x=1&&q=a"), query("q[]=a&q=b"), query("q=a=b"), query("q=a?b"),
		}},
	} {
		s.rule("an extractor reads the value that handlers read: "+kind.kind, func(c *trial) {
			for i, text := range kind.requests {
				seen := func(key anyKey) string {
					var keys []string
					l, err := core.NewLimiter(c.store, core.Policy{Name: fmt.Sprint("p", i), Limits: []core.Limit{slow(100)}},
						core.WithObserver(func(_ context.Context, o core.Observation) { keys = append(keys, o.Key) }))
					if err != nil {
						c.t.Fatal(err)
					}
					got := c.use(l, key).raw(text)
					if got.status != http.StatusOK {
						return fmt.Sprint(got.status)
					}
					return fmt.Sprint(keys)
				}
				ours, want := seen(kind.ours), seen(kind.theirs)
				if value, ok := strings.CutPrefix(want, "["); ok {
					prefix := map[string]string{"cookie": "cookie:s", "header": "user", "query": "query:q"}[kind.kind]
					want = "[" + httpadapter.Key(prefix, strings.TrimSuffix(value, "]")) + "]"
				}
				if ours != want {
					c.errorf("%q: the key is %s, want %s, the value that handlers read", text, ours, want)
				}
			}
		})
	}
}
