package adaptertest

import (
	"context"
	"fmt"
	"net/http"
	"strings"

	"github.com/tokenbucket-go/ratelimit/core"
	httpadapter "github.com/tokenbucket-go/ratelimit/core/adapter"
)

// makes is an exchange of a request that has a key.
func makes(r request, key string) exchange { return exchange{request: r, status: 200, key: key} }

// ofKey is a rule of the keys that an extractor makes of requests.
func ofKey(name string, k key, send ...exchange) rule {
	return rule{name: name, app: app{route: []limiter{{policy: tokens("test", 99), key: k}}}, send: send}
}

var (
	proxy   = core.TrustProxies("10.0.0.0/8")
	spoofed = request{header: []string{
		"X-Forwarded-For", "203.0.113.1", "X-Real-IP", "203.0.113.1", "Forwarded", "for=203.0.113.1",
		"True-Client-IP", "203.0.113.1", "CF-Connecting-IP", "203.0.113.1", "X-Client-IP", "203.0.113.1",
	}}
	cloudflare = request{peer: "10.0.0.1:1", header: []string{"X-Forwarded-For", "203.0.113.2", "CF-Connecting-IP", "203.0.113.1"}}
)

// addresses are rules of the client's address.
var addresses = []rule{
	ofKey("ByIP takes the connection's peer, IPv6 by its /64", ip(),
		makes(request{peer: "192.0.2.1:1"}, "ip:192.0.2.1"), makes(request{peer: "[::ffff:192.0.2.1]:2"}, "ip:192.0.2.1"),
		makes(request{peer: "[2001:db8:1:2:3::4]:1"}, "ip:2001:db8:1:2::/64"), makes(spoofed, "ip:192.0.2.1"),
		makes(forwarded("pipe 192.0.2.1:1", "203.0.113.1"), "ip:192.0.2.1")), // not TCP
	ofKey(
		"ByIP passes on IPv6Prefix", ip(core.IPv6Prefix(56)),
		makes(request{peer: "[2001:db8:1:2ff::4]:1"}, "ip:2001:db8:1:200::/56"),
	),
	ofKey("ByIP passes on TrustProxies", ip(proxy),
		makes(forwarded("10.0.0.1:1", "198.51.100.1, 203.0.113.1, 10.0.0.2"), "ip:203.0.113.1"),
		makes(forwarded("192.0.2.1:1", "203.0.113.1"), "ip:192.0.2.1")),
	ofKey("several lines of X-Forwarded-For are one list", ip(proxy),
		makes(forwarded("10.0.0.1:1", "203.0.113.1", "203.0.113.2"), "ip:203.0.113.2"),
		makes(forwarded("10.0.0.1:1", "203.0.113.2", "203.0.113.1", "10.0.0.2, 10.0.0.3"), "ip:203.0.113.1")),
	ofKey(
		"ByIP passes on TrustHeader", ip(proxy, core.TrustHeader("CF-Connecting-IP")), makes(cloudflare, "ip:203.0.113.1"),
	),
	ofKey("a trusted Unix socket is a proxy", ip(core.TrustProxies("unix:")),
		makes(forwarded("unix @", "203.0.113.1"), "ip:203.0.113.1"),
		makes(forwarded("unix /run/proxy.sock", "203.0.113.2"), "ip:203.0.113.2"),
		makes(forwarded("unix 192.0.2.7:80", "203.0.113.3"), "ip:203.0.113.3")),
	{
		name: "the connection's network says what its peer is",
		app:  keyed(tokens("test", 9), ip(core.TrustProxies("unix:")), 0),
		send: []exchange{
			{request: forwarded("tcp @", "203.0.113.1"), status: 400},
			{request: forwarded("tcp /run/proxy.sock", "203.0.113.1"), status: 400},
		},
	},
	{
		name: "peers without an address and port are refused", app: keyed(tokens("test", 9), ip(), 0),
		send: []exchange{
			{request: request{peer: "unix @"}, status: 400}, {request: request{peer: "unix 192.0.2.7:80"}, status: 400},
			{request: forwarded("203.0.113.1", "203.0.113.1"), status: 400}, // middleware has rewritten it
		},
	},
	ofClientIP("ClientIP returns what ByIP limits by", request{peer: "[2001:db8:1:2:3::4]:1"}, "2001:db8:1:2::/64"),
	ofClientIP(
		"ClientIP passes on its options", forwarded("10.0.0.1:1", "2001:db8:1:2ff::4"), "2001:db8:1:200::/56", proxy,
		core.IPv6Prefix(56),
	),
	ofClientIP("ClientIP returns the error of ByIP", request{peer: "unix @"}, "ratelimit: the request has no key"),
}

// ofClientIP is a rule of what ClientIP returns.
func ofClientIP(name string, r request, want string, trust ...core.IPOption) rule {
	return rule{
		name: name, app: app{use: []limiter{{kind: asClientIP, policy: tokens("test", 9), trust: trust}}},
		send: []exchange{{request: r, status: 200}},
		script: func(c *check) {
			if !strings.HasPrefix(c.address, want) {
				c.errorf("ClientIP returned %q, want %q", c.address, want)
			}
		},
	}
}

// extractors are rules of the other extractors that read the request.
var extractors = []rule{
	ofKey("ByHeader reads a field under any spelling", header("User"),
		makes(having("uSER", "ann"), "user:ann"),
		makes(having("User", "Ann:1", "User", "Ann:1"), "user:Ann:1"),
		exchange{request: having("User", "ann", "User", "bob"), status: 400}),
	{
		name: "ByHeader reads Host, first from the request line", needs: overHTTP,
		app: keyed(tokens("test", 9), header("Host"), 0),
		send: []exchange{
			makes(
				raw("GET http://app.test/other HTTP/1.1\r\nHost: one.test\r\nConnection: close\r\n\r\n"), "host:app.test",
			),
			makes(raw("GET /other HTTP/1.1\r\nHost: App.TEST\r\nConnection: close\r\n\r\n"), "host:app.test"),
		},
	},
	ofKey("ByParam decodes percent-encoding once", param("id"),
		makes(to("/items/ab?id=7"), "param:id:ab"), makes(to("/items/%61b"), "param:id:ab"),
		makes(to("/items/a+b"), "param:id:a+b"),
		makes(to("/items/%2561"), "param:id:%2561")),
	ofKey("ByMethod reads the method", byMethod,
		makes(request{}, "method:GET"), makes(request{method: "POST"}, "method:POST"), makes(request{method: "HEAD"}, "method:HEAD")),
	ofKey("ByPath reads the decoded path, without the query", byPath,
		makes(to("/items/%61?x=%2F"), "path:/items/a"), makes(request{method: "POST"}, "path:/other")),
}

// Requests of one route, and one of another.
var ofOneRoute = []exchange{
	{request: to("/items/1?q=1"), status: 200}, {request: request{method: "POST", target: "/items/2"}, status: 429},
	{request: request{method: "HEAD", target: "/items/3"}, status: 429}, {status: 200},
}

// routes are rules of ByRoute, and of its marker.
var routes = []rule{
	{
		name: "ByRoute has one key for a pattern", needs: overHTTP,
		app: app{route: []limiter{{policy: tokens("test", 1), key: byRoute}}}, send: ofOneRoute, quiet: true,
	},
	{
		name: "ByRoute knows the route in front of the app", needs: routeInUse, app: keyed(tokens("test", 1), byRoute, 0),
		send: ofOneRoute, quiet: true,
	},
	{
		name: "ByParam knows its parameter in front of the app", needs: routeInUse,
		app:  keyed(tokens("test", 9), param("id"), 0),
		send: []exchange{makes(to("/items/%61"), "param:id:a")},
	},
	{
		name: "requests that match no route share one key", needs: routeInUse, app: keyed(tokens("test", 1), byRoute, 0),
		quiet: true,
		send: append(
			[]exchange{{request: to("/nowhere"), status: 404}, {request: to("/other/1"), status: 429}}, ofOneRoute...,
		),
	},
	{
		name: "ByRoute without a route warns once, with advice", needs: overHTTP | routeNotInUse,
		app:  keyed(tokens("test", 9), join(byRoute, ip()), 0),
		send: []exchange{{request: to("/nowhere"), status: 404}, {request: to("/items/1"), status: 200, times: 3}},
		logs: []string{"ByRoute found no route here", "/items/1", advice},
	},
	{
		name: "the marker of ByRoute hides no decision", needs: overHTTP, send: []exchange{{status: 200, left: "outer 4"}},
		app: app{use: []limiter{{policy: tokens("outer", 5), key: user}, {policy: shadowed(tokens("inner", 5)), key: join(byRoute, header("User"))}}},
	},
}

// advice in rule.logs stands for the kit's RouteAdvice.
const advice = "RouteAdvice"

type contextKey struct{}

func seven(ctx context.Context) context.Context { return context.WithValue(ctx, contextKey{}, 7) }

// values are rules of keys that are not read from the request itself.
var values = []rule{
	ofKey("Global has one key for all requests", global("all"),
		makes(request{}, "global:all"), makes(request{peer: "192.0.2.2:1", target: "/items/1", method: "POST"}, "global:all")),
	ofKey(
		"Join joins keys in their order", join(global("a"), global("b")),
		makes(request{}, "global:a|global:b"),
	),
	ofKey(
		"FirstOf is the first key that is not missing", firstOf(header("Nobody"), global("a"), global("b")),
		makes(request{}, "global:a"),
	),
	ofKey("a function's key is the key", user, makes(from("a:b"), "a:b")),
	{
		name: "ByContextValue reads what middleware stored", send: []exchange{makes(request{}, "value:app.user:ann")},
		app: app{values: map[string]any{"app.user": "ann"}, use: []limiter{{policy: tokens("test", 9), key: contextValue("app.user")}}},
	},
	{
		name: "ByContextValue reads the request's own context",
		send: []exchange{makes(request{}, "value:adaptertest.contextKey {}:7")},
		app:  app{context: seven, use: []limiter{{policy: tokens("test", 9), key: contextValue(contextKey{})}}},
	},
}

// missingKeys are rules of requests without a key.
func missingKeys() (rules []rule) {
	for name, x := range map[string]struct {
		key key
		request
	}{
		"a missing header": {header("X-User"), request{}}, "an empty header": {header("X-User"), having("X-User", "")},
		"a missing cookie": {cookie("s"), having("Cookie", "ss=1")}, "an empty cookie": {cookie("s"), having("Cookie", "s=")},
		"a missing query parameter": {query("q"), to("/other?r=1")}, "a missing parameter": {param("id"), request{}},
		"a missing context value":         {contextValue(contextKey{}), request{}},
		"a missing string in the context": {contextValue("app.user"), request{}},
	} {
		rules = append(rules, rule{
			name: name + " is 400", app: keyed(tokens("test", 1), x.key, 0), logs: []string{"code=RL707"},
			send: []exchange{{request: x.request, status: 400, times: 2}},
		})
	}
	return rules
}

// readings are rules of requests that are spelled in unusual ways: an extractor
// reads what handlers read.
func readings() (rules []rule) {
	for i, x := range []struct {
		key  key
		kind string // of its keys
		sent string // between targets and fields, and alone for one that is valid
		all  []string
	}{
		{header("S"), "s", "/other HTTP/1.1\r\n", []string{
			"S: ann", "s: ann", "S:ann", "S: \t ann  ", "S: %61nn", "S: a, b", "S:", "S: \xe4", "X: y", "X-S: bob\r\nS: ann",
			"S_: bob\r\nS: ann", "S: ann\r\nS: ann",
		}},
		{cookie("s"), "cookie:s", "/other HTTP/1.1\r\nCookie: ", []string{
			"s=abc", "s=%61bc", "s=a+b", "s=a%2Bb", "s=%zz", `s="abc"`, "s=a; s=b", "s=; s=b", "S=a; s=b", "x=1;s=a", "  s =a",
			"s= a", "s=a=b", "s=a,b", "s",
			"$s=a; s=b", "", "s=a\r\nCookie: s=b", "x=1\r\ncookie: s=a\r\nCOOKIE: s=b",
		}},
		{query("s"), "query:s", "/other?", []string{
			"s=abc", "s=%61bc", "%73=abc", "s=a+b", "s=a%2Bb", "s=a%20b", "s=a&s=b", "s=&s=b", "s", "S=a&s=b", "s=%zz&s=b",
			"s=a;b&s=c", "s=a%00b", "x=1&&s=a",
			"s[]=a&s=b", "s=a=b", "s=a?b", "x=1&s=a%20b&s=c",
		}},
	} {
		rules = append(rules, rule{
			name: "an extractor reads what handlers read: " + x.kind, needs: overHTTP,
			app: keyed(shadowed(tokens("test", 300)), x.key, withSkip),
			script: func(c *check) {
				for _, one := range x.all {
					text := "GET " + x.sent + one
					if x.kind == "query:s" {
						text += " HTTP/1.1"
					}
					text += "\r\nHost: app.test\r\nConnection: close\r\n\r\n"
					c.note(func() { c.keys, c.values = nil, [3]string{} })
					got, err := c.server.try(c.T.Context(), raw(text))
					var want []string
					if c.values[i] != "" {
						want = []string{httpadapter.Key(x.kind, c.values[i])}
					}
					if err != nil || got.status != http.StatusOK || fmt.Sprint(c.keys) != fmt.Sprint(want) {
						c.errorf("%q: answered %d, %v; the key is %q, want %q", text, got.status, err, c.keys, want)
					}
				}
			},
		})
	}
	return rules
}

// buffers are rules of frameworks whose strings the next request overwrites.
func buffers() (rules []rule) {
	for name, k := range map[string]key{
		"ByHeader": header("User"), "ByCookie": cookie("user"), "ByQuery": query("user"), "ByParam": param("id"),
		"ByPath": byPath, "a function": user,
		"Join": join(user, user), "FirstOf": firstOf(header("Nobody"), user), "NewTogether": user, "Allow": user,
	} {
		l := limiter{policy: tokens("test", 2), key: k}
		switch name {
		case "NewTogether":
			l = together(l, limiter{policy: tokens("wide", 300), key: global("all")})
		case "Allow":
			l.kind = asAllow
		}
		rules = append(rules, rule{
			name: "keys of one connection stay apart: " + name, app: app{route: []limiter{l}}, script: (*check).wantOwnBuckets,
		})
	}
	return append(rules, rule{
		name: "a Result can be undone after its request", app: limit(tokens("test", 5), 0),
		send: []exchange{{request: from("all"), status: 200}, {request: from("bob"), status: 200}}, script: (*check).undo,
		after: "test 5",
	})
}

// wantOwnBuckets sends requests of several keys over one connection.
func (c *check) wantOwnBuckets() {
	const keys = 20
	var err error
	if c.server.kept, err = c.server.dial(c.T.Context(), ""); err != nil {
		c.T.Fatal(err)
	}
	defer c.server.kept.Close()
	for round, status := range []int{200, 200, 429} {
		for i := range keys {
			name := fmt.Sprintf("user-%03d", i) // of one length, so one overwrites the other exactly
			c.exchange(fmt.Sprintf("round %d of %s", round+1, name), exchange{
				request: request{target: "/items/" + name + "?user=" + name, header: []string{"User", name, "Cookie", "user=" + name}},
				status:  status,
			})
		}
	}
}

// undo undoes the first decision.
func (c *check) undo() {
	c.wantAfter("test 4", "before Undo")
	if err := c.results[0].Undo(c.T.Context()); err != nil {
		c.errorf("Undo: %v", err)
	}
}
