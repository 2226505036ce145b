package adaptertest

import (
	"context"
	"net/http"
	"strings"
)

type named string

func (n named) String() string { return string(n) }

// What prints as others of its type do, to keep it out of logs.
type (
	email    string
	redacted string
	failing  string
	account  int64
)

func (email) String() string     { return "[redacted]" }
func (redacted) Error() string   { return "[redacted]" }
func (failing) GoString() string { return "[redacted]" }
func (account) String() string   { return "[redacted]" }

type (
	contextKey struct{}
	otherKey   struct{}
)

func with(key, value any) func(context.Context) context.Context {
	return func(ctx context.Context) context.Context { return context.WithValue(ctx, key, value) }
}

// keys: what each extractor tells apart, and what not.
func (s *suite[K, O]) keys() {
	k := s.kit
	long := strings.Repeat("x", 1000)
	headers := func(field string, values ...string) (list []request) {
		for _, v := range values {
			list = append(list, request{header: header(field, v)})
		}
		return list
	}
	targets := func(list ...string) (requests []request) {
		for _, t := range list {
			requests = append(requests, request{target: t})
		}
		return requests
	}
	values := func(list ...any) (visits []visit[K]) {
		for _, v := range list {
			visits = append(visits, visit[K]{key: k.ByContextValue(ValueKey), value: v})
		}
		return visits
	}
	everything := request{target: "/items/7?id=7", header: header("id", "7", "Cookie", "id=7"), peer: "7.7.7.7:7"}
	s.groupings([]grouping[K]{
		{"ByHeader tells values apart, whatever bytes they hold", inUse, false, of(k.ByHeader("User"),
			headers("User", "a", "b", "A", "a:b", "a%3Ab", "{a}", "%7Ba%7D", "ä", "a b", "sha256:x", long+"1", long+"2")...)},
		{"ByHeader gives one value one bucket, from wherever it comes", inUse, true, of(k.ByHeader("User"),
			request{header: header("User", "ann"), peer: "192.0.2.1:1"},
			request{header: header("User", "ann"), peer: "192.0.2.2:2", target: "/items/1", method: http.MethodPost})},
		{"names of header fields don't mind case", inUse, true, append(
			of(k.ByHeader("x-user"), headers("X-User", "ann")...), of(k.ByHeader("X-USER"), headers("x-user", "ann")...)...)},
		{"a header that came twice with one value is that value", inUse, true, of(k.ByHeader("User"),
			request{header: header("User", "ann")}, request{header: header("User", "ann", "User", "ann")})},
		{"credentials are one key under any spelling of their scheme", inUse, true, of(k.ByHeader("Authorization"),
			headers("Authorization", "Bearer aB3", "bearer aB3", "BEARER aB3", "bEARER   aB3", "Bearer \t aB3", "bearer\u00a0aB3", "Bearer\u2003 aB3")...)},
		{"credentials are told apart, in case too, and so are schemes", inUse, false, of(k.ByHeader("Authorization"),
			headers("Authorization", "Bearer aB3", "Bearer AB3", "Basic aB3", "aB3", "AB3", "Bearer aB3 c", "Bearer aB3  c")...)},
		{"Proxy-Authorization is read as Authorization is", inUse, true, of(k.ByHeader("Proxy-Authorization"),
			headers("Proxy-Authorization", "Basic aB3", "BASIC  aB3")...)},
		{"two header fields with the same value don't share a bucket", inUse, false, append(
			of(k.ByHeader("A"), headers("A", "7")...), of(k.ByHeader("B"), headers("B", "7")...)...)},
		{"an API key that looks like an address does not share the address's bucket", inUse, false, append(
			of(k.ByIP(), request{peer: "192.0.2.1:1"}), of(k.ByHeader("User"), headers("User", "192.0.2.1", "ip:192.0.2.1")...)...)},
		{"kinds of keys don't share buckets, whatever their names and values", inRoute, false, []visit[K]{
			{key: k.ByHeader("id"), request: everything}, {key: k.ByCookie("id"), request: everything},
			{key: k.ByQuery("id"), request: everything}, {key: k.ByParam("id"), request: everything},
			{key: k.ByContextValue(ValueKey), request: everything, value: "7"},
			{key: k.ByPath(), request: everything}, {key: k.ByRoute(), request: everything},
			{key: k.ByMethod(), request: everything}, {key: k.ByIP(), request: everything},
			{key: k.Global("7"), request: everything}, {key: k.Global("id"), request: everything},
			{key: k.Join(k.ByHeader("id")), request: everything}}},
		{"ByCookie tells values apart", inUse, false, of(k.ByCookie("session"), headers("Cookie",
			"session=a", "session=b", "a=session; session=c")...)},
		{"ByCookie reads its own cookie among others", inUse, true, of(k.ByCookie("session"), headers("Cookie",
			"session=a", "sessions=b; session=a; other=c")...)},
		{"cookies of two names don't share a bucket", inUse, false, append(
			of(k.ByCookie("a"), headers("Cookie", "a=7; b=7")...), of(k.ByCookie("b"), headers("Cookie", "a=7; b=7")...)...)},
		{"ByQuery tells values apart", inUse, false, of(k.ByQuery("q"), targets("/other?q=a", "/other?q=b", "/other?q=a%3Ab", "/other?q=a%26q")...)},
		{"ByQuery minds neither encoding nor other parameters", inUse, true, of(k.ByQuery("q"),
			targets("/other?q=a%20b", "/other?q=a+b", "/items/1?x=1&q=%61%20b&q=c")...)},
		{"ByParam tells values apart", inRoute, false, of(k.ByParam("id"), targets("/items/1", "/items/2")...)},
		{"ByParam decodes what is percent-encoded, so that a parameter has one spelling", inRoute, true, of(k.ByParam("id"),
			targets("/items/ab", "/items/%61b", "/items/a%62", "/items/%61%62")...)},
		{"ByParam decodes once", inRoute, false, of(k.ByParam("id"), targets("/items/a", "/items/%2561", "/items/a+b", "/items/a%20b")...)},
		{"ByParam minds the parameter alone", inRoute, true, of(k.ByParam("id"), request{target: "/items/1"},
			request{target: "/items/1?id=2", method: http.MethodPost})},
		{"ByMethod tells methods apart and nothing else", inUse, false, of(k.ByMethod(),
			request{method: http.MethodGet}, request{method: http.MethodPost}, request{method: http.MethodHead})},
		{"ByMethod knows the methods of RFC 9110, and PATCH", inUse, false, of(k.ByMethod(),
			request{method: http.MethodGet}, request{method: http.MethodPut}, request{method: http.MethodDelete},
			request{method: http.MethodOptions}, request{method: http.MethodPatch})},
		{"ByMethod minds no path", inUse, true, of(k.ByMethod(), targets("/items/1", "/other", "/nowhere")...)},
		{"ByPath tells paths apart", inUse, false, of(k.ByPath(), targets("/items/1", "/items/2", "/other", "/nowhere")...)},
		{"ByPath decodes what is percent-encoded, so that a path has one spelling", inUse, true, of(k.ByPath(),
			targets("/items/a", "/items/%61", "/items/a?x=%2F")...)},
		{"ByPath minds neither query nor method", inUse, true, of(k.ByPath(), request{target: "/items/1?a"},
			request{target: "/items/1?b", method: http.MethodPost})},
		{"ByContextValue tells values of earlier middleware apart", inUse, false, values("ann", "bob", 7, named("carol"), int64(8))},
		{"ByContextValue takes a string, a Stringer or an integer for what it prints as", inUse, true, values("7", 7, int64(7), named("7"))},
		{"ByContextValue reads strings and integers as they are, not as they print", inUse, false, values(
			email("ann@example.com"), email("bob@example.com"), account(7), account(8), redacted("carol"), failing("dave"))},
		{"ByContextValue reads what a pointer points to", inUse, true, values(email("ann@example.com"), new(email("ann@example.com")), "ann@example.com")},
		{"keys of contexts don't share buckets, though they print the same", inUse, false, []visit[K]{
			{key: k.ByContextValue(contextKey{}), context: with(contextKey{}, "7")},
			{key: k.ByContextValue(otherKey{}), context: with(otherKey{}, "7")}}},
		{"ByContextValue finds values in the request's own context", inUse, false, []visit[K]{
			{key: k.ByContextValue(contextKey{}), context: with(contextKey{}, "ann")},
			{key: k.ByContextValue(contextKey{}), context: with(contextKey{}, "bob")}}},
		{"Global limits all requests together", inUse, true, of(k.Global("all"), request{peer: "192.0.2.1:1"},
			request{peer: "192.0.2.2:2", target: "/items/1", method: http.MethodPost}, request{target: "/nowhere"})},
		{"Globals of two names don't share a bucket", inUse, false, []visit[K]{{key: k.Global("a")}, {key: k.Global("b")}}},
		{"a key of the user's own is what it returns", inUse, false, of(k.Custom(func(h Header) (string, error) { return h("User"), nil }),
			headers("User", "a", "b", "a:b", "{a}", long+"1", long+"2")...)},
	})
	if k.ParamKnownInUse {
		s.groupings([]grouping[K]{
			{"ByParam works in front of the app", inUse, false, of(k.ByParam("id"), targets("/items/1", "/items/2")...)},
		})
	}
}

// join: keys made of keys.
func (s *suite[K, O]) join() {
	k := s.kit
	raw := func(field string) K { return k.Custom(func(h Header) (string, error) { return h(field), nil }) }
	var requests []request
	for _, p := range [][2]string{
		{"a:b", "c"}, {"a", "b:c"}, {"a%3Ab", "c"}, {"a", "b%3Ac"}, {"a%", "3Ab:c"}, {"a", "b"}, {"b", "a"}, {"%", ":"}, {":", "%"},
		{"a", "header:b:c"}, {"a:header:b", "c"},
	} {
		requests = append(requests, request{header: header("A", p[0], "B", p[1])})
	}
	ann := func(peer string) request { return request{peer: peer, header: header("User", "ann")} }
	s.groupings([]grouping[K]{
		{"Join is injective: (a:b, c) and (a, b:c) are two keys", inUse, false, of(k.Join(raw("A"), raw("B")), requests...)},
		{"Join is injective for extractors too", inUse, false, of(k.Join(k.ByHeader("A"), k.ByHeader("B")), requests...)},
		{"Join minds how keys are nested", inUse, false, []visit[K]{
			{key: k.Join(k.Global("a"), k.Join(k.Global("b"), k.Global("c")))},
			{key: k.Join(k.Join(k.Global("a"), k.Global("b")), k.Global("c"))},
			{key: k.Join(k.Global("a"), k.Global("b"), k.Global("c"))}}},
		{"Join of the same keys is the same key", inUse, true, of(k.Join(k.ByMethod(), k.ByHeader("User")), ann("192.0.2.1:1"), ann("192.0.2.2:1"))},
		{"FirstOf takes the first key there is", inUse, true, of(k.FirstOf(k.ByHeader("Nobody"), k.ByHeader("User"), k.ByIP()), ann("192.0.2.1:1"), ann("192.0.2.2:1"))},
		{"FirstOf goes on when a key is missing or empty", inUse, false, append(
			of(k.FirstOf(k.ByHeader("User"), k.ByIP()), request{peer: "192.0.2.1:1"}, request{peer: "192.0.2.2:1", header: header("User", "")}),
			of(k.FirstOf(raw("User"), k.ByIP()), request{peer: "192.0.2.3:1"}, request{peer: "192.0.2.4:1"})...)},
		{"FirstOf is the key it finds", inUse, true, []visit[K]{
			{key: k.FirstOf(k.ByHeader("User"), k.ByIP())}, {key: k.FirstOf(k.ByCookie("c"), k.ByIP())}, {key: k.ByIP()}}},
	})
}
