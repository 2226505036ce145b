package adaptertest

import (
	"context"
	"fmt"
	"net/http"
	"strings"

	"github.com/tokenbucket-go/ratelimit/core"
)

// ofKey is a rule of the key that an extractor makes of requests.
func ofKey(name string, k key, send ...exchange) rule {
	return rule{name: name, app: app{route: []limiter{{policy: tokens("test", 99), key: k}}}, send: send}
}

// makes is an exchange of a request that has a key.
func makes(r request, key string) exchange { return exchange{request: r, status: 200, key: key} }

// forwarded is a request from peer with lines of X-Forwarded-For.
func forwarded(peer string, lines ...string) request {
	r := request{peer: peer}
	for _, l := range lines {
		r.header = append(r.header, "X-Forwarded-For", l)
	}
	return r
}

// to is a request to a target.
func to(target string) request { return request{target: target} }

// ofAddresses are rules of the client's address.
func ofAddresses() []rule {
	proxy := core.TrustProxies("10.0.0.0/8")
	spoofed := request{header: []string{"X-Forwarded-For", "203.0.113.1", "X-Real-IP", "203.0.113.1", "Forwarded", "for=203.0.113.1",
		"True-Client-IP", "203.0.113.1", "CF-Connecting-IP", "203.0.113.1", "X-Client-IP", "203.0.113.1"}}
	cloudflare := forwarded("10.0.0.1:1", "203.0.113.2")
	cloudflare.header = append(cloudflare.header, "CF-Connecting-IP", "203.0.113.1")
	clientIP := func(name string, r request, want string, trust ...core.IPOption) rule {
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
	return []rule{
		ofKey("ByIP takes the connection's peer, IPv6 by its /64", ip(),
			makes(request{peer: "192.0.2.1:1"}, "ip:192.0.2.1"), makes(request{peer: "[::ffff:192.0.2.1]:2"}, "ip:192.0.2.1"),
			makes(request{peer: "[2001:db8:1:2:3::4]:1"}, "ip:2001:db8:1:2::/64"), makes(spoofed, "ip:192.0.2.1")),
		ofKey("ByIP passes on IPv6Prefix", ip(core.IPv6Prefix(56)), makes(request{peer: "[2001:db8:1:2ff::4]:1"}, "ip:2001:db8:1:200::/56")),
		ofKey("ByIP passes on TrustProxies", ip(proxy),
			makes(forwarded("10.0.0.1:1", "198.51.100.1, 203.0.113.1, 10.0.0.2"), "ip:203.0.113.1"),
			makes(forwarded("192.0.2.1:1", "203.0.113.1"), "ip:192.0.2.1")),
		ofKey("several lines of X-Forwarded-For are one list", ip(proxy),
			makes(forwarded("10.0.0.1:1", "203.0.113.1", "203.0.113.2"), "ip:203.0.113.2"),
			makes(forwarded("10.0.0.1:1", "203.0.113.2", "203.0.113.1", "10.0.0.2, 10.0.0.3"), "ip:203.0.113.1")),
		ofKey("ByIP passes on TrustHeader", ip(proxy, core.TrustHeader("CF-Connecting-IP")), makes(cloudflare, "ip:203.0.113.1")),
		ofKey("a trusted Unix socket is a proxy, whatever its name", ip(core.TrustProxies("unix:")),
			makes(forwarded("unix @", "203.0.113.1"), "ip:203.0.113.1"), makes(forwarded("unix /run/proxy.sock", "203.0.113.2"), "ip:203.0.113.2"),
			makes(forwarded("unix 192.0.2.7:80", "203.0.113.3"), "ip:203.0.113.3")),
		{
			name: "the connection's network decides what a socket is", app: keyed(tokens("test", 9), ip(core.TrustProxies("unix:"))),
			send: []exchange{{request: forwarded("tcp @", "203.0.113.1"), status: 400}, {request: forwarded("tcp /run/proxy.sock", "203.0.113.1"), status: 400}},
		},
		{
			name: "the peer of an untrusted Unix socket has no address", app: keyed(tokens("test", 9), ip()),
			send: []exchange{{request: request{peer: "unix @"}, status: 400}, {request: request{peer: "unix 192.0.2.7:80"}, status: 400}},
		},
		{
			name: "an address without a port was rewritten: it is refused", app: keyed(tokens("test", 9), ip()),
			send: []exchange{{request: forwarded("203.0.113.1", "203.0.113.1"), status: 400, times: 2}}, logs: []string{"(RL620)"},
		},
		{
			name: "X-Forwarded-For of nobody's proxy is warned of once", app: keyed(tokens("test", 9), ip()),
			send: []exchange{{request: forwarded("192.0.2.1:1", "203.0.113.1"), status: 200, times: 3}}, logs: []string{"code=RL701"},
		},
		clientIP("ClientIP returns what ByIP limits by", request{peer: "[2001:db8:1:2:3::4]:1"}, "2001:db8:1:2::/64"),
		clientIP("ClientIP passes on its options", forwarded("10.0.0.1:1", "2001:db8:1:2ff::4"), "2001:db8:1:200::/56", proxy, core.IPv6Prefix(56)),
		clientIP("ClientIP returns the error of ByIP", request{peer: "unix @"}, "ratelimit: the request has no key"),
	}
}

// ofFields are rules of the other extractors that read a request.
func ofFields() []rule {
	host := func(line, host string) request {
		return request{raw: line + " HTTP/1.1\r\nHost: " + host + "\r\nConnection: close\r\n\r\n"}
	}
	return []rule{
		ofKey("ByHeader reads a field under any spelling", header("X-User"), makes(fields("x-uSER", "ann"), "header:x-user:ann"),
			makes(fields("X-User", "Ann:1", "X-User", "Ann:1"), "header:x-user:Ann%3A1"),
			exchange{request: fields("X-User", "ann", "X-User", "bob"), status: 400}),
		{
			name: "ByHeader reads Host, first from the request line", needs: overHTTP, app: keyed(tokens("test", 9), header("Host")),
			send: []exchange{
				makes(host("GET http://app.test/other", "one.test"), "header:host:app.test"), makes(host("GET /other", "App.TEST"), "header:host:app.test"),
			},
		},
		ofKey("ByCookie reads its own cookie among others", cookie("s"), makes(fields("Cookie", "ss=b; s=a; t=c"), "cookie:s:a")),
		ofKey("ByQuery reads the first value, decoded", query("q"), makes(to("/other?x=1&q=a%20b&q=c"), "query:q:a b")),
		ofKey("ByParam decodes percent-encoding once", param("id"),
			makes(to("/items/ab?id=7"), "param:id:ab"), makes(to("/items/%61b"), "param:id:ab"), makes(to("/items/a+b"), "param:id:a+b"),
			makes(to("/items/%2561"), "param:id:%2561")),
		ofKey("ByMethod reads the method", byMethod, makes(request{}, "method:GET"), makes(request{method: "POST"}, "method:POST"), makes(request{method: "HEAD"}, "method:HEAD")),
		{
			name: "methods that clients make up share one key", needs: overHTTP, app: keyed(shadowed(tokens("test", 9)), join(byMethod, user)),
			script: func(c *check) {
				for _, method := range []string{"get", "PURGE", "M1"} {
					c.note(func() { c.keys = nil })
					_, _ = c.server.try(c.T.Context(), request{raw: method + " /other HTTP/1.1\r\nHost: app.test\r\nConnection: close\r\n\r\n"})
					want := core.JoinKey(core.JoinKey("method", "other"), "all")
					c.mu.Lock()
					if len(c.keys) > 0 && c.keys[0] != want { // some servers refuse the method
						c.errorf("the key of %s is %q, want %q", method, c.keys, want)
					}
					c.mu.Unlock()
				}
			},
		},
		ofKey("ByPath reads the decoded path, without the query", byPath, makes(to("/items/%61?x=%2F"), "path:/items/a"), makes(request{method: "POST"}, "path:/other")),
	}
}

// ofRoutes are rules of the route.
func ofRoutes() []rule {
	one, two := exchange{request: to("/items/1?q=1"), status: 200}, exchange{request: request{method: "POST", target: "/items/2"}, status: 429}
	other, head := exchange{status: 200}, exchange{request: request{method: "HEAD", target: "/items/3"}, status: 429}
	inUse := keyed(tokens("test", 1), byRoute)
	return []rule{
		{name: "ByRoute has one key for a pattern", needs: overHTTP, app: app{route: inUse.use}, send: []exchange{one, two, head, other}, quiet: true},
		{name: "ByRoute knows the route in front of the app", needs: routeInUse, app: inUse, send: []exchange{one, two, head, other}, quiet: true},
		{
			name: "ByParam knows its parameter in front of the app", needs: routeInUse, app: keyed(tokens("test", 9), param("id")),
			send: []exchange{makes(to("/items/%61"), "param:id:a")},
		},
		{
			name: "requests that match no route share one key", needs: routeInUse | overHTTP, app: inUse,
			send: []exchange{{request: to("/nowhere"), status: 404}, {request: to("/other/1"), status: 429}, one, other}, quiet: true,
		},
		{
			name: "ByRoute without a route warns once, with advice", needs: routeNotInUse | overHTTP, app: keyed(tokens("test", 9), join(byRoute, ip())),
			send: []exchange{{request: to("/nowhere"), status: 404}, {request: to("/items/1"), status: 200, times: 3}},
			logs: []string{"ByRoute found no route here", "/items/1"},
		},
		{
			name: "the marker of ByRoute hides no decision", needs: overHTTP,
			app: app{use: []limiter{
				{policy: tokens("outer", 5), key: user}, {policy: shadowed(tokens("inner", 5)), key: join(byRoute, header("User"))},
			}},
			send: []exchange{{status: 200, left: "outer 4"}},
		},
	}
}

type contextKey struct{}

// ofKeys are rules of keys that are not read from the request itself.
func ofKeys() []rule {
	global1, global2 := global("a"), global("b")
	value := func(name string, values map[string]any, in any, of any, want string) rule {
		return rule{
			name: name,
			app: app{
				values: values, use: []limiter{{policy: tokens("test", 9), key: contextValue(of)}},
				context: func(ctx context.Context) context.Context { return context.WithValue(ctx, contextKey{}, in) },
			},
			send: []exchange{makes(request{}, want)},
		}
	}
	return []rule{
		ofKey("Global has one key for all requests", global("all"), makes(request{}, "global:all"), makes(request{peer: "192.0.2.2:1", target: "/items/1", method: "POST"}, "global:all")),
		ofKey("Join joins keys in their order", join(global1, global2), makes(request{}, core.JoinKey("global:a", "global:b"))),
		ofKey("FirstOf is the first key that is not missing", firstOf(header("Nobody"), global1, global2), makes(request{}, "global:a")),
		ofKey("a function's key is the key", user, makes(from("a:b"), "a:b")),
		value("ByContextValue reads what middleware stored", map[string]any{"app.user": "ann"}, nil, "app.user", "value:app.user:ann"),
		value("ByContextValue reads the request's own context", nil, 7, contextKey{}, "value:adaptertest.contextKey {}:7"),
	}
}

// ofMissingKeys are rules of requests without a key.
func ofMissingKeys() (rules []rule) {
	for name, x := range map[string]struct {
		key key
		request
	}{
		"header": {header("X-User"), request{}}, "header that is empty": {header("X-User"), fields("X-User", "")},
		"cookie": {cookie("s"), fields("Cookie", "ss=1")}, "cookie that is empty": {cookie("s"), fields("Cookie", "s=")},
		"query": {query("q"), to("/other?r=1")}, "parameter": {param("id"), request{}},
		"context value": {contextValue(contextKey{}), request{}}, "string in the context": {contextValue("app.user"), request{}},
		"part of Join": {join(global("a"), header("X-User")), request{}}, "key of FirstOf": {firstOf(header("X-User"), header("X-Key")), request{}},
	} {
		rules = append(rules, rule{
			name: "a missing " + name + " is 400, logged once", app: keyed(tokens("test", 1), x.key), logs: []string{"code=RL707"},
			send: []exchange{{request: x.request, status: 400, times: 2}},
		})
	}
	return rules
}

// ofReading are rules of requests that are spelled in unusual ways: an
// extractor reads what handlers read.
func ofReading() (rules []rule) {
	request := func(target string, fields ...string) string {
		return "GET " + target + " HTTP/1.1\r\nHost: app.test\r\nConnection: close\r\n" + strings.Join(append(fields, ""), "\r\n") + "\r\n"
	}
	var cookies, headers, queries []string
	for _, s := range []string{
		"s=abc", "s=%61bc", "s=a+b", "s=a%2Bb", "s=%zz", `s="abc"`, "s=a; s=b", "s=; s=b", "S=a; s=b", "x=1;s=a", "  s =a", "s= a", "s=a=b", "s=a,b", "s", "$s=a; s=b", "",
	} {
		cookies = append(cookies, request("/other", "Cookie: "+s))
	}
	cookies = append(cookies, request("/other", "Cookie: s=a", "Cookie: s=b"), request("/other", "cookie: s=a", "COOKIE: s=b"))
	for _, s := range []string{"S: ann", "s: ann", "S:ann", "S: \t ann  ", "S: %61nn", "S: a, b", "S:", "S: \xe4", "X: y"} {
		headers = append(headers, request("/other", s), request("/other", "X-S: bob", s), request("/other", "S_: bob", s, s))
	}
	for _, s := range []string{
		"s=abc", "s=%61bc", "%73=abc", "s=a+b", "s=a%2Bb", "s=a%20b", "s=a&s=b", "s=&s=b", "s", "S=a&s=b", "s=%zz&s=b", "s=a;b&s=c", "s=a%00b", "x=1&&s=a", "s[]=a&s=b", "s=a=b", "s=a?b",
	} {
		queries = append(queries, request("/other?"+s))
	}
	for i, x := range []struct {
		key  key
		kind string
		sent []string
	}{{header("S"), "header", headers}, {cookie("s"), "cookie", cookies}, {query("s"), "query", queries}} {
		rules = append(rules, rule{
			name: "an extractor reads what handlers read: " + x.kind, needs: overHTTP, app: keyed(shadowed(tokens("test", 300)), x.key, withSkip),
			script: func(c *check) {
				for _, text := range x.sent {
					c.note(func() { c.keys, c.values = nil, [3]string{} })
					got, err := c.server.sendRaw(c.T.Context(), requestOf(text))
					var want []string
					if c.values[i] != "" {
						want = []string{core.JoinKey(x.kind, "s", c.values[i])}
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

// requestOf is a request whose text is sent.
func requestOf(text string) request { return request{raw: text, peer: defaultPeer} }

// ofBuffers are rules of frameworks whose strings the next request overwrites.
func ofBuffers() (rules []rule) {
	for name, k := range map[string]key{
		"ByHeader": header("User"), "ByCookie": cookie("user"), "ByQuery": query("user"), "ByParam": param("id"), "ByPath": byPath, "a function": user,
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
			name: "keys of one connection keep their own buckets: " + name, app: app{route: []limiter{l}}, script: (*check).wantOwnBuckets,
		})
	}
	return rules
}

// wantOwnBuckets sends requests of several keys over one connection.
func (c *check) wantOwnBuckets() {
	const keys = 20
	c.server.client(defaultPeer).Transport.(*http.Transport).MaxConnsPerHost = 1
	for round, status := range []int{200, 200, 429} {
		for i := range keys {
			name := fmt.Sprintf("user-%03d", i) // of one length, so one overwrites the other exactly
			c.exchange(fmt.Sprintf("round %d of %s", round+1, name), exchange{
				request: request{target: "/items/" + name + "?user=" + name, header: []string{"User", name, "Cookie", "user=" + name}}, status: status,
			})
		}
	}
	if n := c.server.l.connections(); n > keys/4 { // a transport on a slow machine may not know in time that it may reuse one
		c.errorf("the premise: one connection carries many requests, but there were %d", n)
	}
}
