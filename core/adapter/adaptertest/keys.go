package adaptertest

import (
	"context"
	"encoding/base64"
	"fmt"
	"net/http"
	"strings"
)

type named string

func (n named) String() string { return string(n) }

// Types whose values all print the same, which keeps them out of logs.
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

// keys checks which requests share a bucket under each extractor, and which
// don't.
func (s *suite) keys() {
	s.headerKeys()
	s.requestKeys()
	s.valueKeys()
}

// inHeader returns requests with a header field of each value.
func inHeader(field string, values ...string) (list []request) {
	for _, v := range values {
		list = append(list, request{header: header(field, v)})
	}
	return list
}

// to returns requests to each target.
func to(targets ...string) (list []request) {
	for _, t := range targets {
		list = append(list, request{target: t})
	}
	return list
}

// values returns visits whose key is each value in the request's context.
func (s *suite) values(list ...any) (visits []visit) {
	for _, v := range list {
		visits = append(visits, visit{key: s.kit.ByContextValue(ValueKey), value: v})
	}
	return visits
}

// long is longer than keys in Redis are.
var long = strings.Repeat("x", 1000)

// headerKeys checks the keys of ByHeader.
func (s *suite) headerKeys() {
	k := s.kit
	s.groupings([]grouping{
		{"ByHeader gives each value its own bucket, whatever bytes it holds", inUse, false, of(k.ByHeader("User"),
			inHeader("User", "a", "b", "A", "a:b", "a%3Ab", "{a}", "%7Ba%7D", "ä", "a b", "sha256:x", long+"1", long+"2")...)},
		{"ByHeader gives equal values from different clients one bucket", inUse, true, of(k.ByHeader("User"),
			request{header: header("User", "ann"), peer: "192.0.2.1:1"},
			request{header: header("User", "ann"), peer: "192.0.2.2:2", target: "/items/1", method: http.MethodPost})},
		{"names of header fields are case-insensitive", inUse, true, append(
			of(k.ByHeader("x-user"), inHeader("X-User", "ann")...), of(k.ByHeader("X-USER"), inHeader("x-user", "ann")...)...)},
		{"a header that came twice with one value is that value", inUse, true, of(k.ByHeader("User"),
			request{header: header("User", "ann")}, request{header: header("User", "ann", "User", "ann")})},
		{"credentials are one key, however their scheme is spelled", inUse, true, of(k.ByHeader("Authorization"),
			inHeader("Authorization", "Bearer aB3", "bearer aB3", "BEARER aB3", "bEARER   aB3", "Bearer \t aB3", "bearer\u00a0aB3", "Bearer\u2003 aB3")...)},
		{"different credentials and different schemes are different keys, and credentials are case-sensitive", inUse, false, of(k.ByHeader("Authorization"),
			inHeader("Authorization", "Bearer aB3", "Bearer AB3", "Basic aB3", "aB3", "AB3", "Bearer aB3 c", "Bearer aB3  c")...)},
		{"Proxy-Authorization is read like Authorization", inUse, true, of(k.ByHeader("Proxy-Authorization"),
			inHeader("Proxy-Authorization", "Basic aB3", "BASIC  aB3")...)},
		{"Basic credentials are one key, however they are encoded", inUse, true, of(k.ByHeader("Authorization"), inHeader("Authorization", basics()...)...)},
		{"Basic credentials of other users and passwords are other keys", inUse, false, of(k.ByHeader("Authorization"),
			inHeader("Authorization", "Basic "+inBase64("ann:1"), "Basic "+inBase64("ann:2"), "Basic "+inBase64("Ann:1"), "Basic "+inBase64("ann:"), "Bearer "+inBase64("ann:1"),
				inBase64("ann:1"), "basic-key-1", "basic-key-2")...)},
		{"a JSON Web Token is one key, whatever its unused bits are", inUse, true, of(k.ByHeader("Authorization"), inHeader("Authorization", tokens("Bearer ")...)...)},
		{"a JSON Web Token in another header is one key too", inUse, true, of(k.ByHeader("Token"), inHeader("Token", tokens("")...)...)},
		{"what only resembles a JSON Web Token is a key as it is", inUse, false, of(k.ByHeader("Token"),
			inHeader("Token", "ab.cd.e1", "ab.cd.e2", "ab.cd.e2=", aToken+"AQ", aToken+"Ag", aToken+"AQ.AQ", aToken+"AR.AQ", "AQ", "AR")...)},
		{"two header fields with the same value don't share a bucket", inUse, false, append(
			of(k.ByHeader("A"), inHeader("A", "7")...), of(k.ByHeader("B"), inHeader("B", "7")...)...)},
		{"an API key that looks like an address does not share the address's bucket", inUse, false, append(
			of(k.ByIP(), request{peer: "192.0.2.1:1"}), of(k.ByHeader("User"), inHeader("User", "192.0.2.1", "ip:192.0.2.1")...)...)},
	})
}

// requestKeys checks the keys of the other parts of a request, Global and
// functions of the app.
func (s *suite) requestKeys() {
	k := s.kit
	anywhere := []request{{peer: "192.0.2.1:1"}, {peer: "192.0.2.2:2", target: "/items/1", method: http.MethodPost}}
	if !k.RPC {
		anywhere = append(anywhere, request{target: "/nowhere"})
	}
	everything := request{target: "/items/7?id=7", header: header("id", "7", "Cookie", "id=7"), peer: "7.7.7.7:7"}
	s.groupings([]grouping{
		{"keys of different extractors don't share a bucket, whatever their names and values", inRoute, false, []visit{
			{key: k.ByHeader("id"), request: everything}, {key: k.ByCookie("id"), request: everything},
			{key: k.ByQuery("id"), request: everything}, {key: k.ByParam("id"), request: everything},
			{key: k.ByContextValue(ValueKey), request: everything, value: "7"},
			{key: k.ByPath(), request: everything}, {key: k.ByRoute(), request: everything},
			{key: k.ByMethod(), request: everything}, {key: k.ByIP(), request: everything},
			{key: k.Global("7"), request: everything}, {key: k.Global("id"), request: everything},
			{key: k.Join(k.ByHeader("id"), k.ByIP()), request: everything}}},
		{"ByCookie gives each value its own bucket", inUse, false, of(k.ByCookie("session"), inHeader("Cookie",
			"session=a", "session=b", "a=session; session=c")...)},
		{"a JSON Web Token in a cookie is one key", inUse, true, of(k.ByCookie("session"), inHeader("Cookie", tokens("session=")...)...)},
		{"a JSON Web Token in the query is one key, also with line breaks", inUse, true, of(k.ByQuery("q"), to(append(tokens("/other?q="), "/other?q="+aToken+"A%0AA", "/other?q="+aToken+"AA==%0D%0A%0D%0A", "/other?q="+aToken+"AA=%0A=")...)...)},
		{"ByCookie reads its own cookie among others", inUse, true, of(k.ByCookie("session"), inHeader("Cookie",
			"session=a", "sessions=b; session=a; other=c")...)},
		{"cookies of two names don't share a bucket", inUse, false, append(
			of(k.ByCookie("a"), inHeader("Cookie", "a=7; b=7")...), of(k.ByCookie("b"), inHeader("Cookie", "a=7; b=7")...)...)},
		{"ByQuery gives each value its own bucket", inUse, false, of(k.ByQuery("q"), to("/other?q=a", "/other?q=b", "/other?q=a%3Ab", "/other?q=a%26q")...)},
		{"ByQuery ignores the encoding and other parameters", inUse, true, of(k.ByQuery("q"),
			to("/other?q=a%20b", "/other?q=a+b", "/items/1?x=1&q=%61%20b&q=c")...)},
		{"ByParam gives each value its own bucket", inRoute, false, of(k.ByParam("id"), to("/items/1", "/items/2")...)},
		{"ByParam decodes percent-encoding, so every spelling of a parameter is one key", inRoute, true, of(k.ByParam("id"),
			to("/items/ab", "/items/%61b", "/items/a%62", "/items/%61%62")...)},
		{"ByParam decodes only once", inRoute, false, of(k.ByParam("id"), to("/items/a", "/items/%2561", "/items/a+b", "/items/a%20b")...)},
		{"ByParam ignores the rest of the request", inRoute, true, of(k.ByParam("id"), request{target: "/items/1"},
			request{target: "/items/1?id=2", method: http.MethodPost})},
		{"ByMethod gives each method its own bucket", inUse, false, of(k.ByMethod(),
			request{method: http.MethodGet}, request{method: http.MethodPost}, request{method: http.MethodHead})},
		{"ByMethod knows the methods of RFC 9110 and PATCH", inUse, false, of(k.ByMethod(),
			request{method: http.MethodGet}, request{method: http.MethodPut}, request{method: http.MethodDelete},
			request{method: http.MethodOptions}, request{method: http.MethodPatch})},
		{"ByMethod ignores the path", inUse, true, of(k.ByMethod(), to("/items/1", "/other", "/nowhere")...)},
		{"ByPath gives each path its own bucket", inUse, false, of(k.ByPath(), to("/items/1", "/items/2", "/other", "/nowhere")...)},
		{"ByPath decodes percent-encoding, so every spelling of a path is one key", inUse, true, of(k.ByPath(),
			to("/items/a", "/items/%61", "/items/a?x=%2F")...)},
		{"ByPath ignores the query and the method", inUse, true, of(k.ByPath(), request{target: "/items/1?a"},
			request{target: "/items/1?b", method: http.MethodPost})},
		{"Global limits all requests together", inUse, true, of(k.Global("all"),
			anywhere...)},
		{"Globals of two names don't share a bucket", inUse, false, []visit{{key: k.Global("a")}, {key: k.Global("b")}}},
		{"a custom key function gives each key its own bucket", inUse, false, of(k.Custom(func(h Header) (string, error) { return h("User"), nil }),
			inHeader("User", "a", "b", "a:b", "{a}", long+"1", long+"2")...)},
	})
	if k.ParamKnownInUse {
		s.groupings([]grouping{
			{"ByParam works in front of the app", inUse, false, of(k.ByParam("id"), to("/items/1", "/items/2")...)},
		})
	}
}

// valueKeys checks the keys of ByContextValue.
func (s *suite) valueKeys() {
	k := s.kit
	s.groupings([]grouping{
		{"ByContextValue gives each value its own bucket", inUse, false, s.values("ann", "bob", 7, named("carol"), int64(8))},
		{"ByContextValue uses the text of a string, a Stringer or an integer", inUse, true, s.values("7", 7, int64(7), named("7"))},
		{"ByContextValue takes a whole float, as JSON has it, for the integer", inUse, true, s.values(7, 7.0, float32(7), new(7.0), "7")},
		{"whole floats below 2^53 have their own buckets", inUse, false, s.values(0.0, -7.0, 7.0, float64(1<<53-1), float64(1<<53-2))},
		{"ByContextValue does not call the methods of strings and integers", inUse, false, s.values(
			email("ann@example.com"), email("bob@example.com"), account(7), account(8), redacted("carol"), failing("dave"))},
		{"ByContextValue uses what a pointer points to", inUse, true, s.values(email("ann@example.com"), new(email("ann@example.com")), "ann@example.com")},
		{"context keys that print the same don't share a bucket", inUse, false, []visit{
			{key: k.ByContextValue(contextKey{}), context: with(contextKey{}, "7")},
			{key: k.ByContextValue(otherKey{}), context: with(otherKey{}, "7")}}},
		{"ByContextValue finds values in the request's own context", inUse, false, []visit{
			{key: k.ByContextValue(contextKey{}), context: with(contextKey{}, "ann")},
			{key: k.ByContextValue(contextKey{}), context: with(contextKey{}, "bob")}}},
	})
}

// join checks keys that are made from other keys.
func (s *suite) join() {
	k := s.kit
	raw := func(field string) anyKey { return k.Custom(func(h Header) (string, error) { return h(field), nil }) }
	var requests []request
	for _, p := range [][2]string{
		{"a:b", "c"}, {"a", "b:c"}, {"a%3Ab", "c"}, {"a", "b%3Ac"}, {"a%", "3Ab:c"}, {"a", "b"}, {"b", "a"}, {"%", ":"}, {":", "%"},
		{"a|b:b", "c"}, {"a", "c|a:a"}, {"a|b", "c"}, {"a", "b|c"}, {"a%7Cb", "c"}, {"%=a", "c"},
	} {
		requests = append(requests, request{header: header("A", p[0], "B", p[1])})
	}
	ann := func(peer string) request { return request{peer: peer, header: header("User", "ann")} }
	s.groupings([]grouping{
		{"Join is injective: (a:b, c) and (a, b:c) are different keys", inUse, false, of(k.Join(raw("A"), raw("B")), requests...)},
		{"Join is injective for extractors too", inUse, false, of(k.Join(k.ByHeader("A"), k.ByHeader("B")), requests...)},
		{"Join gives each nesting of keys its own bucket", inUse, false, []visit{
			{key: k.Join(k.Global("a"), k.Join(k.Global("b"), k.Global("c")))},
			{key: k.Join(k.Join(k.Global("a"), k.Global("b")), k.Global("c"))},
			{key: k.Join(k.Global("a"), k.Global("b"), k.Global("c"))}}},
		{"Join of equal keys is one key", inUse, true, of(k.Join(k.ByMethod(), k.ByHeader("User")), ann("192.0.2.1:1"), ann("192.0.2.2:1"))},
		{"FirstOf uses the first key that is not missing", inUse, true, of(k.FirstOf(k.ByHeader("Nobody"), k.ByHeader("User"), k.ByIP()), ann("192.0.2.1:1"), ann("192.0.2.2:1"))},
		{"FirstOf tries the next key if one is missing or empty", inUse, false, append(
			of(k.FirstOf(k.ByHeader("User"), k.ByIP()), request{peer: "192.0.2.1:1"}, request{peer: "192.0.2.2:1", header: header("User", "")}),
			of(k.FirstOf(raw("User"), k.ByIP()), request{peer: "192.0.2.3:1"}, request{peer: "192.0.2.4:1"})...)},
		{"FirstOf returns the key that it finds, unchanged", inUse, true, []visit{
			{key: k.FirstOf(k.ByHeader("User"), k.ByIP())}, {key: k.FirstOf(k.ByCookie("c"), k.ByIP())}, {key: k.ByIP()}}},
	})
}

// unknownMethods checks methods that clients make up.
func (s *suite) unknownMethods() {
	s.rule("methods outside RFC 9110 and PATCH share one key, so clients can't make up keys", func(c *trial) {
		const capacity = 5
		app := c.use(c.holding(capacity), c.kit.ByMethod())
		allowed := 0
		for i := range 50 {
			method := fmt.Sprintf("M%03d", i)
			if i%5 == 0 {
				method = []string{"get", "Get", "GeT", "PROPFIND", "PURGE", "method", "other", "OTHER", "X", "!"}[i/5]
			}
			got := app.raw(method + " /other HTTP/1.1\r\nHost: app.test\r\nConnection: close\r\n\r\n")
			if len(limitFields(got.header)) > 0 && got.status != http.StatusTooManyRequests {
				allowed++
			}
		}
		if allowed > capacity {
			c.errorf("%d requests with made-up methods passed a limit of %d", allowed, capacity)
		}
		c.wantStatus(app.send(request{}), http.StatusOK, "a GET after them")
	})
}

// reuse checks that keys are copied: frameworks that reuse buffers return
// strings that the next request overwrites.
func (s *suite) reuse() {
	k := s.kit
	raw := k.Custom(func(h Header) (string, error) { return h("User"), nil })
	for _, extractor := range []struct {
		name string
		key  anyKey
	}{
		{"ByHeader", k.ByHeader("User")}, {"ByCookie", k.ByCookie("user")}, {"ByQuery", k.ByQuery("user")},
		{"ByParam", k.ByParam("id")}, {"ByPath", k.ByPath()}, {"a key function", raw},
		{"Join", k.Join(raw, raw)}, {"FirstOf", k.FirstOf(k.ByHeader("Nobody"), raw)},
	} {
		if absent(extractor.key) {
			continue
		}
		s.rule("keys that arrive over one connection keep their own buckets: "+extractor.name, func(c *trial) {
			const keys = 30
			app := c.app(answer(http.StatusOK))
			app.Routes = routes(answer(http.StatusOK), middleware{c.holding(2), extractor.key, nil, nil, nil, nil})
			running := c.serve(app)
			// A transport may dial before it has noticed that a connection is free.
			running.client(defaultPeer).Transport.(*http.Transport).MaxConnsPerHost = 1
			send := func(i int) response {
				user := fmt.Sprintf("user-%03d", i) // all have one length, so one overwrites the other exactly
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
			// A transport on a slow machine may not know in time that it may reuse one.
			if n := running.connections(); n > keys/10 {
				c.errorf("the premise: one connection carries many requests, but there were %d", n)
			}
		})
	}
}

// connections returns the number of connections that were made.
func (s *server) connections() int {
	s.l.mu.Lock()
	defer s.l.mu.Unlock()
	return len(s.l.conns)
}

func inBase64(s string) string { return base64.StdEncoding.EncodeToString([]byte(s)) }

// basics returns the spellings of one Basic credential that a check of
// net/http, echo or fiber takes.
func basics() (list []string) {
	const letters = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/"
	text := strings.TrimRight(inBase64("ann:secret"), "=") // ten bytes: four bits of the last letter are unused
	start, last := text[:len(text)-1], strings.IndexByte(letters, text[len(text)-1])
	for bits := range 16 {
		one := start + letters[last+bits:last+bits+1]
		list = append(list, "Basic "+one+"==", "bASIC \t "+one)
	}
	return append(list, "BasicX"+text+"==", "basic:"+text+"==")
}

// aToken is a JSON Web Token without its signature.
var aToken = base64.RawURLEncoding.EncodeToString([]byte(`{"alg":"HS256"}`)) + "." + base64.RawURLEncoding.EncodeToString([]byte(`{"sub":"ann"}`)) + "."

// tokens returns the spellings of one JSON Web Token after a prefix. One byte
// of signature leaves four bits unused.
func tokens(prefix string) (list []string) {
	for bits := range 16 {
		list = append(list, prefix+aToken+"A"+string(rune('A'+bits)))
	}
	return append(list, prefix+aToken+"AA==")
}
