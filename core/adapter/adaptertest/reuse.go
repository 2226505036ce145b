package adaptertest

import (
	"fmt"
	"net/http"
)

// reuse: frameworks that reuse their buffers hand out strings that the next request overwrites.
func (s *suite[K, O]) reuse() {
	k := s.kit
	raw := k.Custom(func(h Header) (string, error) { return h("User"), nil })
	for _, extractor := range []struct {
		name string
		key  K
	}{
		{"ByHeader", k.ByHeader("User")}, {"ByCookie", k.ByCookie("user")}, {"ByQuery", k.ByQuery("user")},
		{"ByParam", k.ByParam("id")}, {"ByPath", k.ByPath()}, {"a key function", raw},
		{"Join", k.Join(raw, raw)}, {"FirstOf", k.FirstOf(k.ByHeader("Nobody"), raw)},
	} {
		s.rule("keys that arrived over one connection keep their own buckets: "+extractor.name, func(c *trial[K, O]) {
			const keys = 30
			app := c.app(answer(http.StatusOK))
			app.Routes = routes(answer(http.StatusOK), Limiter[K, O]{c.holding(2), extractor.key, nil})
			running := c.serve(app)
			send := func(i int) response {
				user := fmt.Sprintf("user-%03d", i) // one length, so that one overwrites the other exactly
				return running.send(request{target: "/items/" + user + "?user=" + user, header: header("User", user, "Cookie", "user="+user)})
			}
			for round := range 3 {
				for i := range keys {
					if got := send(i); round < 2 {
						c.wantRemaining(got, int64(1-round), fmt.Sprintf("key %d of %d, round %d, capacity 2", i, keys, round+1))
					} else {
						c.wantStatus(got, http.StatusTooManyRequests, fmt.Sprintf("key %d of %d, round 3, capacity 2", i, keys))
					}
				}
			}
			c.wantRemaining(send(keys), 1, "a key that was not used before")
			if n := running.connections(); n != 1 {
				c.errorf("this took %d connections, want 1: the premise is gone", n)
			}
		})
	}
}

// connections is how many connections were made.
func (s *server) connections() int {
	s.l.mu.Lock()
	defer s.l.mu.Unlock()
	return len(s.l.conns)
}
