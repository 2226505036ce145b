package adaptertest

import "net/http"

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
}
