package adaptertest

import (
	"context"
	"fmt"
	"net/http"
	"strings"

	"github.com/tokenbucket-go/ratelimit/core"
)

// agreement: an app and its limiter must take a request for the same client. So an extractor reads what the framework
// gives its handlers, whatever was sent.
func (s *suite[K, O]) agreement() {
	k := s.kit
	raw := func(fields ...string) string {
		return "GET /other HTTP/1.1\r\nHost: app.test\r\nConnection: close\r\n" + strings.Join(append(fields, ""), "\r\n") + "\r\n"
	}
	query := func(q string) string {
		return "GET /other?" + q + " HTTP/1.1\r\nHost: app.test\r\nConnection: close\r\n\r\n"
	}
	for _, kind := range []struct {
		kind     string
		ours     K
		theirs   K
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
		s.rule("an extractor reads what handlers read: "+kind.kind, func(c *trial[K, O]) {
			for i, text := range kind.requests {
				seen := func(key K) string {
					var keys []string
					l, err := core.NewLimiter(c.store, core.Policy{Name: fmt.Sprint("p", i), Limits: []core.Limit{slow(100)}},
						core.WithObservedKeys(), core.WithObserver(func(_ context.Context, o core.Observation) { keys = append(keys, o.Key) }))
					if err != nil {
						c.t.Fatal(err)
					}
					got := c.use(l, key).raw(text)
					if got.status != http.StatusOK {
						return fmt.Sprint(got.status)
					}
					return fmt.Sprint(keys)
				}
				ours, theirs := seen(kind.ours), seen(k.Join(k.Global("x"), kind.theirs))
				name := map[string]string{"cookie": "s", "header": "user", "query": "q"}[kind.kind]
				prefix := core.JoinKey("global", "x")
				want := strings.Replace(theirs, "["+core.JoinKey(prefix, "")+"", "["+core.JoinKey(kind.kind, name, ""), 1)
				if ours != want {
					c.errorf("%q: the key is %s, want %s, as handlers read it", text, ours, want)
				}
			}
		})
	}
}
