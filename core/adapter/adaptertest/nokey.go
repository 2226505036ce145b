package adaptertest

import (
	"fmt"
	"net/http"
	"strings"

	"github.com/tokenbucket-go/ratelimit/core"
)

// noKey: requests that can't be decided for want of a key.
func (s *suite[K, O]) noKey() {
	k := s.kit
	missing, broken := http.StatusBadRequest, http.StatusInternalServerError
	failing := k.Custom(func(Header) (string, error) { return "", errSecret })
	empty := k.Custom(func(Header) (string, error) { return "", nil })
	for _, trouble := range []struct {
		rule   string
		key    K
		status int
		visit  visit[K]
	}{
		{"a missing header is 400", k.ByHeader("User"), missing, visit[K]{}},
		{"an empty header is a missing one", k.ByHeader("User"), missing, visit[K]{request: request{header: header("User", "")}}},
		{"a missing cookie is 400", k.ByCookie("session"), missing, visit[K]{request: request{header: header("Cookie", "sessions=1")}}},
		{"an empty cookie is a missing one", k.ByCookie("session"), missing, visit[K]{request: request{header: header("Cookie", "session=")}}},
		{"a missing query parameter is 400", k.ByQuery("q"), missing, visit[K]{request: request{target: "/other?r=1"}}},
		{"an empty query parameter is a missing one", k.ByQuery("q"), missing, visit[K]{request: request{target: "/other?q="}}},
		{"a parameter that the route does not have is 400", k.ByParam("nosuch"), missing, visit[K]{request: request{target: "/items/1"}}},
		{"a missing context value is 400", k.ByContextValue(ValueKey), missing, visit[K]{}},
		{"an empty context value is a missing one", k.ByContextValue(ValueKey), missing, visit[K]{value: ""}},
		{"a nil pointer as context value is a missing one", k.ByContextValue(ValueKey), missing, visit[K]{value: (*named)(nil)}},
		{"a peer without an address is 400", k.ByIP(), missing, visit[K]{request: request{peer: "@"}}},
		{"an empty key of the user's own is a missing one", empty, missing, visit[K]{}},
		{"an error of the user's own that is ErrNoKey is 400", k.Custom(func(Header) (string, error) {
			return "", fmt.Errorf("%w: %w", core.ErrNoKey, errSecret)
		}), missing, visit[K]{}},
		{"any other error of a key function is 500", failing, broken, visit[K]{}},
		{"a key with an error is no key", k.Custom(func(Header) (string, error) { return "ann", errSecret }), broken, visit[K]{}},
		{"Join with a missing key is 400", k.Join(k.ByIP(), k.ByHeader("User")), missing, visit[K]{}},
		{"Join with an empty key is 400", k.Join(k.ByIP(), empty), missing, visit[K]{}},
		{"Join with a failing key is 500", k.Join(k.ByIP(), failing), broken, visit[K]{}},
		{"a header that came twice with different values is 400: app and limiter could take it for two", k.ByHeader("User"), missing,
			visit[K]{request: request{header: header("User", "ann", "User", "bob")}}},
		{"so is an empty one before another", k.ByHeader("User"), missing, visit[K]{request: request{header: header("User", "", "User", "bob")}}},
		{"FirstOf does not go on from a header that came twice", k.FirstOf(k.ByHeader("User"), k.ByIP()), missing,
			visit[K]{request: request{header: header("User", "ann", "User", "bob")}}},
		{"FirstOf missing keys is 400", k.FirstOf(k.ByHeader("User"), k.ByCookie("session"), empty), missing, visit[K]{}},
		{"FirstOf skips missing keys only: a failing one is 500", k.FirstOf(failing, k.ByIP()), broken, visit[K]{}},
	} {
		s.rule(trouble.rule, func(c *trial[K, O]) {
			trouble.visit.key = trouble.key
			for range 2 {
				c.wantRefusal(c.open(trouble.visit, inRoute, Limiter[K, O]{Limiter: c.holding(1)})(), trouble.status, "the request")
			}
		})
	}
	s.rule("a missing key is warned of once by each middleware, with what is missing", func(c *trial[K, O]) {
		log := c.logged(func() {
			for range 2 {
				app := c.use(c.holding(1), k.FirstOf(k.ByHeader("User"), k.ByCookie("session")))
				for range 3 {
					c.wantRefusal(app.send(request{target: "/items/1"}), missing, "a request without a key")
				}
			}
		})
		for _, want := range []string{"no usable key", `no header \"user\"`, `no cookie \"session\"`, "policy=test", "/items/1"} {
			if n := strings.Count(log, want); n != 2 {
				c.errorf("two middlewares logged %q %d times, want once each: %s", want, n, log)
			}
		}
	})
}
