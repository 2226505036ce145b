package adaptertest

import (
	"net/http"
	"strings"

	"github.com/tokenbucket-go/ratelimit/core"
)

// host: a request line with a whole URL says what the request is for, and its Host field does not (RFC 9112,
// section 3.2.2): else clients could choose their key.
func (s *suite[K, O]) host() {
	s.rule("ByHeader takes the Host of the request line, where it has one", func(c *trial[K, O]) {
		app := c.use(c.holding(1), c.kit.ByHeader("Host"))
		for i, host := range []string{"app.test", "one.test", "two.test"} {
			got := app.raw("GET http://app.test/other HTTP/1.1\r\nHost: " + host + "\r\nConnection: close\r\n\r\n")
			if want := http.StatusTooManyRequests; i > 0 {
				c.wantStatus(got, want, "the same URL with another Host field")
			} else {
				c.wantStatus(got, http.StatusOK, "the first")
			}
		}
		c.wantStatus(app.send(request{}), http.StatusTooManyRequests, "the same host in the field alone")
		c.wantStatus(app.raw("GET /other HTTP/1.1\r\nHost: App.TEST\r\nConnection: close\r\n\r\n"), http.StatusTooManyRequests, "the same host in capitals")
	})
}

// route: ByRoute.
func (s *suite[K, O]) route() {
	key := s.kit.ByRoute()
	item := func(method, target string) request { return request{method: method, target: target} }
	get := http.MethodGet
	places := []place{inRoute}
	if s.kit.RouteKnownInUse {
		places = append(places, inUse)
	}
	for _, p := range places {
		s.groupings([]grouping[K]{
			{"ByRoute gives all paths of a pattern one bucket, " + string(p), p, true, of(key,
				item(get, "/items/1"), item(get, "/items/2"), item(get, "/items/3?q=1"))},
			{"ByRoute leaves the method to ByMethod, " + string(p), p, true, of(key,
				item(get, "/items/1"), item(http.MethodPost, "/items/2"), item(http.MethodHead, "/items/3"))},
			{"ByRoute tells patterns apart, " + string(p), p, false, of(key, item(get, "/items/1"), item(get, "/other"))},
			{"Join of method and route tells both apart, " + string(p), p, false, of(s.kit.Join(s.kit.ByMethod(), key),
				item(get, "/items/1"), item(get, "/other"), item(http.MethodPost, "/items/1"))},
		})
	}
	if s.kit.RouteKnownInUse {
		s.groupings([]grouping[K]{
			{"requests that match no route share one key, so that nobody can make keys up", inUse, true, of(key,
				item(get, "/nowhere"), item(get, "/nowhere/else"), item(get, "/other/1"), item(get, "/another"))},
			{"requests that match no route don't use up a route's bucket", inUse, false, of(key,
				item(get, "/nowhere"), item(get, "/items/1"), item(get, "/other"))},
		})
	}
	s.rule("ByRoute where no route is known warns once, of a request that was answered, and says what to write", func(c *trial[K, O]) {
		if s.kit.RouteKnownInUse {
			return // a request that was answered has a route
		}
		log := c.logged(func() {
			app := c.use(c.holding(10), s.kit.Join(key, s.kit.ByIP()))
			c.wantStatus(app.send(item(get, "/nowhere")), http.StatusNotFound, "no route")
			for range 3 {
				c.wantStatus(app.send(item(get, "/items/1")), http.StatusOK, "an item")
			}
		})
		if n := strings.Count(log, "ByRoute knows no route here"); n != 1 || !strings.Contains(log, s.kit.RouteAdvice) || !strings.Contains(log, "/items/1") {
			c.errorf("want one warning, of /items/1, that says %q; got %q", s.kit.RouteAdvice, log)
		}
	})
	s.rule("ByRoute where routes are known warns of nothing", func(c *trial[K, O]) {
		log := c.logged(func() {
			for _, p := range places {
				app := c.open(visit[K]{key: key, request: item(get, "/items/1")}, p, Limiter[K, O]{Limiter: c.holding(10)})
				c.wantStatus(app(), http.StatusOK, string(p))
				if p == inUse {
					app = c.open(visit[K]{key: key, request: item(get, "/nowhere")}, p, Limiter[K, O]{Limiter: c.holding(10)})
					c.wantStatus(app(), http.StatusNotFound, "no route")
				}
			}
		})
		if log != "" {
			c.errorf("it logged %q", log)
		}
	})
	s.rule("what ByRoute leaves with a request does not hide an outer limiter's decision", func(c *trial[K, O]) {
		outer := Limiter[K, O]{c.limiter(core.Policy{Name: "outer", Limits: []core.Limit{slow(5)}}), s.kit.Global("all"), nil}
		skipped := Limiter[K, O]{c.limiter(core.Policy{Name: "inner", Shadow: true, Limits: []core.Limit{slow(5)}}), s.kit.Join(key, s.kit.ByHeader("User")), nil}
		app := c.serve(c.app(answer(http.StatusOK), outer, skipped))
		c.wantRemaining(app.send(request{}), 4, "the inner limiter decides nothing")
	})
}
