package adaptertest

import "github.com/tokenbucket-go/ratelimit/core"

// from are requests from the given peers.
func from(peers ...string) (requests []request) {
	for _, p := range peers {
		requests = append(requests, request{peer: p})
	}
	return requests
}

// forwarded is a request from peer with lines of X-Forwarded-For.
func forwarded(peer string, lines ...string) request {
	r := request{peer: peer, header: header()}
	for _, l := range lines {
		r.header.Add("X-Forwarded-For", l)
	}
	return r
}

// address: who ByIP takes for one client.
func (s *suite[K, O]) address() {
	k := s.kit
	s.groupings([]grouping[K]{
		{"ByIP tells the addresses of connections apart", inUse, false, of(k.ByIP(), from("192.0.2.1:1", "192.0.2.2:1", "[2001:db8::1]:1")...)},
		{"ByIP minds no port", inUse, true, of(k.ByIP(), from("192.0.2.1:1", "192.0.2.1:65535")...)},
		{"an IPv6 client is its /64", inUse, true, of(k.ByIP(), from("[2001:db8:1:2::1]:1", "[2001:db8:1:2:ffff:ffff:ffff:ffff]:2")...)},
		{"IPv6 clients of different /64 are apart", inUse, false, of(k.ByIP(), from("[2001:db8:1:2::1]:1", "[2001:db8:1:3::1]:1", "[2001:db8:2:2::1]:1")...)},
		{"IPv6Prefix(56) makes an IPv6 client its /56", inUse, true, of(k.ByIP(core.IPv6Prefix(56)), from("[2001:db8:1:200::1]:1", "[2001:db8:1:2ff::1]:1")...)},
		{"IPv6Prefix(56) keeps clients of different /56 apart", inUse, false, of(k.ByIP(core.IPv6Prefix(56)), from("[2001:db8:1:200::1]:1", "[2001:db8:1:300::1]:1")...)},
		{"an IPv4 address mapped into IPv6 is the IPv4 address", inUse, true, of(k.ByIP(), from("192.0.2.1:1", "[::ffff:192.0.2.1]:2")...)},
		{"IPv4-mapped addresses are not grouped as IPv6", inUse, false, of(k.ByIP(), from("[::ffff:192.0.2.1]:1", "[::ffff:192.0.2.2]:1")...)},
		{"without a trusted proxy nobody can choose an address with X-Forwarded-For", inUse, true, of(k.ByIP(),
			forwarded("192.0.2.1:1"), forwarded("192.0.2.1:2", "203.0.113.1"), forwarded("192.0.2.1:3", "203.0.113.2, 10.0.0.1"))},
		{"nobody can choose an address with any other header", inUse, true, of(k.ByIP(), spoofs("203.0.113.1", "203.0.113.2")...)},
	})
}

func spoofs(addresses ...string) (requests []request) {
	for _, a := range addresses {
		requests = append(requests, request{peer: "192.0.2.1:1", header: header(
			"X-Real-IP", a, "Forwarded", "for="+a, "True-Client-IP", a, "CF-Connecting-IP", a, "X-Client-IP", a,
			"X-Forwarded-For", a, "Fastly-Client-IP", a, "X-Appengine-Remote-Addr", a)})
	}
	return requests
}

// proxies: whose word ByIP takes.
func (s *suite[K, O]) proxies() {
	trusting := s.kit.ByIP(core.TrustProxies("10.0.0.0/8", "192.0.2.7", "2001:db8:ffff::/48"))
	cloudflare := s.kit.ByIP(core.TrustProxies("10.0.0.0/8"), core.TrustHeader("CF-Connecting-IP"))
	told := func(peer, client string, lines ...string) request {
		r := forwarded(peer, lines...)
		r.header.Add("CF-Connecting-IP", client)
		return r
	}
	s.groupings([]grouping[K]{
		{"a trusted proxy's clients are apart", inUse, false, of(trusting,
			forwarded("10.0.0.1:1", "203.0.113.1"), forwarded("10.0.0.1:1", "203.0.113.2"), forwarded("192.0.2.7:1", "203.0.113.3"),
			forwarded("[2001:db8:ffff::1]:1", "203.0.113.4"), forwarded("[::ffff:10.0.0.1]:1", "203.0.113.5"))},
		{"a client is the same through any trusted proxy, any number of them, and directly", inUse, true, of(trusting,
			forwarded("10.0.0.1:1", "203.0.113.1"), forwarded("192.0.2.7:1", "203.0.113.1"), forwarded("[2001:db8:ffff::1]:1", "203.0.113.1"),
			forwarded("10.0.0.1:1", "203.0.113.1, 10.0.0.2"), forwarded("10.0.0.1:1", "203.0.113.1 ,\t192.0.2.7,10.0.0.2"),
			forwarded("203.0.113.1:1"))},
		{"X-Forwarded-For is read from the right: what a client writes into it is not", inUse, true, of(trusting,
			forwarded("10.0.0.1:1", "203.0.113.1"), forwarded("10.0.0.1:1", "198.51.100.1, 203.0.113.1"),
			forwarded("10.0.0.1:1", "10.0.0.3, 203.0.113.1, 10.0.0.2"), forwarded("10.0.0.1:1", "garbage, 203.0.113.1"))},
		{"an untrusted peer can't speak for others", inUse, true, of(trusting,
			forwarded("192.0.2.1:1", "203.0.113.1"), forwarded("192.0.2.1:1", "203.0.113.2, 10.0.0.1"), forwarded("192.0.2.1:1"))},
		{"several lines of X-Forwarded-For are one list", inUse, true, of(trusting,
			forwarded("10.0.0.1:1", "203.0.113.1"), forwarded("10.0.0.1:1", "198.51.100.1", "203.0.113.1"),
			forwarded("10.0.0.1:1", "198.51.100.2", "203.0.113.1", "10.0.0.2, 10.0.0.3"))},
		{"the last client of several lines counts", inUse, false, of(trusting,
			forwarded("10.0.0.1:1", "203.0.113.1", "203.0.113.2"), forwarded("10.0.0.1:1", "203.0.113.2", "203.0.113.1"))},
		{"nobody vouches for what stands left of garbage", inUse, true, of(trusting,
			forwarded("10.0.0.1:1", "203.0.113.1, unknown"), forwarded("10.0.0.1:1", "203.0.113.2, 1.2.3"), forwarded("10.0.0.1:1", "203.0.113.3,"))},
		{"addresses in X-Forwarded-For may have ports", inUse, true, of(trusting,
			forwarded("10.0.0.1:1", "203.0.113.1:80"), forwarded("10.0.0.1:1", "203.0.113.1"), forwarded("10.0.0.1:1", "::ffff:203.0.113.1"))},
		{"IPv6 clients of a proxy are their /64", inUse, true, of(trusting,
			forwarded("10.0.0.1:1", "[2001:db8::1]:80"), forwarded("10.0.0.1:1", "2001:db8::2"), forwarded("10.0.0.1:1", "[2001:db8::3]"))},
		{"TrustHeader tells a trusted peer's clients apart", inUse, false, of(cloudflare,
			told("10.0.0.1:1", "203.0.113.1", "198.51.100.1"), told("10.0.0.1:1", "203.0.113.2", "198.51.100.1"), forwarded("10.0.0.1:1", "198.51.100.1"))},
		{"TrustHeader goes before X-Forwarded-For", inUse, true, of(cloudflare,
			told("10.0.0.1:1", "203.0.113.1", "198.51.100.1"), told("10.0.0.2:1", "203.0.113.1", "198.51.100.2"), told("10.0.0.1:1", "203.0.113.1"))},
		{"an untrusted peer's TrustHeader is not read", inUse, true, of(cloudflare,
			told("192.0.2.1:1", "203.0.113.1"), told("192.0.2.1:1", "203.0.113.2", "10.0.0.1"), forwarded("192.0.2.1:1"))},
		{"without its header, TrustHeader leaves X-Forwarded-For to be read", inUse, true, of(cloudflare,
			forwarded("10.0.0.1:1", "203.0.113.1"), told("10.0.0.1:1", "garbage", "203.0.113.1"), told("10.0.0.1:1", "203.0.113.1"))},
	})
}
