package adaptertest

import "net/http"

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
