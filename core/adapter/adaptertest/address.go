package adaptertest

import (
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/tokenbucket-go/ratelimit/core"
	"github.com/tokenbucket-go/ratelimit/internal/logtest"
)

// from returns a request from each of the peers.
func from(peers ...string) (requests []request) {
	for _, p := range peers {
		requests = append(requests, request{peer: p})
	}
	return requests
}

// forwarded returns a request from peer with the given lines of
// X-Forwarded-For.
func forwarded(peer string, lines ...string) request {
	r := request{peer: peer, header: header()}
	for _, l := range lines {
		r.header.Add("X-Forwarded-For", l)
	}
	return r
}

// address checks which addresses ByIP treats as one client.
func (s *suite) address() {
	k := s.kit
	s.groupings([]grouping{
		{"ByIP gives each peer address its own bucket", inUse, false, of(k.ByIP(), from("192.0.2.1:1", "192.0.2.2:1", "[2001:db8::1]:1")...)},
		{"ByIP ignores the port", inUse, true, of(k.ByIP(), from("192.0.2.1:1", "192.0.2.1:65535")...)},
		{"ByIP groups IPv6 addresses by /64", inUse, true, of(k.ByIP(), from("[2001:db8:1:2::1]:1", "[2001:db8:1:2:ffff:ffff:ffff:ffff]:2")...)},
		{"IPv6 addresses of different /64 have their own buckets", inUse, false, of(k.ByIP(), from("[2001:db8:1:2::1]:1", "[2001:db8:1:3::1]:1", "[2001:db8:2:2::1]:1")...)},
		{"IPv6Prefix(56) groups IPv6 addresses by /56", inUse, true, of(k.ByIP(core.IPv6Prefix(56)), from("[2001:db8:1:200::1]:1", "[2001:db8:1:2ff::1]:1")...)},
		{"with IPv6Prefix(56) addresses of different /56 have their own buckets", inUse, false, of(k.ByIP(core.IPv6Prefix(56)), from("[2001:db8:1:200::1]:1", "[2001:db8:1:300::1]:1")...)},
		{"an IPv4-mapped IPv6 address is the IPv4 address", inUse, true, of(k.ByIP(), from("192.0.2.1:1", "[::ffff:192.0.2.1]:2")...)},
		{"IPv4-mapped addresses are not grouped as IPv6", inUse, false, of(k.ByIP(), from("[::ffff:192.0.2.1]:1", "[::ffff:192.0.2.2]:1")...)},
		{"without a trusted proxy a client can't choose its address with X-Forwarded-For", inUse, true, of(k.ByIP(),
			forwarded("192.0.2.1:1"), forwarded("192.0.2.1:2", "203.0.113.1"), forwarded("192.0.2.1:3", "203.0.113.2, 10.0.0.1"))},
		{"a client can't choose its address with any other header field", inUse, true, of(k.ByIP(), spoofs("203.0.113.1", "203.0.113.2")...)},
	})
}

// peers checks peers whose address is not that of a TCP connection.
func (s *suite) peers() {
	k := s.kit
	s.rule("an address without a port was rewritten, so it is refused, and a warning says what to use", func(c *trial) {
		log := logtest.Capture(func() {
			for _, key := range []anyKey{k.ByIP(), k.ByIP(core.TrustProxies("203.0.113.0/24")), k.FirstOf(k.ByIP(), k.Global("all"))} {
				app := c.use(c.holding(9), key)
				for i := range 3 {
					r := forwarded("203.0.113."+strconv.Itoa(i), "203.0.113."+strconv.Itoa(i))
					c.wantRefusal(app.send(r), http.StatusBadRequest, "a rewritten address")
				}
				r := forwarded("203.0.113.9:80", "203.0.113.9:80")
				c.wantRefusal(app.send(r), http.StatusBadRequest, "an address that a field has with its port")
			}
		})
		if strings.Count(log, "RL620") != 3 || strings.Count(log, "core.TrustProxies") != 3 {
			c.errorf("each of three middlewares logs once what to use instead: %s", log)
		}
	})
	s.networks()
	socket := k.ByIP(core.TrustProxies("unix:"))
	rfc7239 := k.ByIP(core.TrustProxies("10.0.0.0/8"), core.TrustHeader("Forwarded"))
	by := func(lines ...string) request {
		r := request{peer: "10.0.0.1:1", header: header("X-Forwarded-For", "198.51.100.1")}
		for _, l := range lines {
			r.header.Add("Forwarded", l)
		}
		return r
	}
	s.groupings([]grouping{
		{"with DangerouslyTrustRemoteAddr a rewritten address is the client", inUse, false, of(k.ByIP(core.DangerouslyTrustRemoteAddr()), from("203.0.113.1", "203.0.113.2", "203.0.113.3:1")...)},
		{"clients of a proxy on a Unix socket have their own buckets once the socket is trusted", inUse, false, of(socket,
			forwarded("@", "203.0.113.1"), forwarded("@", "203.0.113.2"), forwarded("/run/proxy.sock", "203.0.113.3"), forwarded("unix 192.0.2.7:80", "203.0.113.4"))},
		{"a client of a proxy on a Unix socket can't choose its address", inUse, true, of(socket,
			forwarded("@", "203.0.113.1"), forwarded("@", "198.51.100.1, 203.0.113.1"), forwarded("@", "198.51.100.2", "203.0.113.1"))},
		{"trusting Forwarded gives the clients in Forwarded their own buckets", inUse, false, of(rfc7239,
			by("for=203.0.113.1"), by(`for="203.0.113.2:80"`), by(`for="[2001:db8::1]:80"`), by("for=_hidden"))},
		{"with a trusted Forwarded a client can't choose its address", inUse, true, of(rfc7239,
			by("for=203.0.113.1"), by("for=198.51.100.1, for=203.0.113.1"), by(`for="198.51.100.1, For="203.0.113.1:99";proto=http`),
			by("for=198.51.100.1", "proto=https;for=203.0.113.1, for=10.0.0.9"))},
		{"clients that a proxy hides share its bucket with a trusted Forwarded", inUse, true, of(rfc7239,
			by("for=_a"), by("for=unknown"), by("for=198.51.100.1, for=_b"), by("for=198.51.100.1, proto=http"), by())},
	})
}

// networks checks that the network of a connection decides what its peer's name
// is.
func (s *suite) networks() {
	k := s.kit
	s.rule("the network of a connection decides whether it is a Unix socket, and not its peer's name", func(c *trial) {
		for _, test := range []struct {
			key    anyKey
			peer   string
			status int
		}{
			{k.ByIP(), "unix 192.0.2.7:80", http.StatusBadRequest},
			{k.ByIP(), "unix [2001:db8::7]:80", http.StatusBadRequest},
			{k.ByIP(core.TrustProxies("10.0.0.0/8")), "unix 10.0.0.7:80", http.StatusBadRequest},
			{k.ByIP(core.TrustProxies("unix:")), "tcp @", http.StatusBadRequest}, // as middleware rewrites a peer's name
			{k.ByIP(core.TrustProxies("unix:")), "tcp /run/proxy.sock", http.StatusBadRequest},
			{k.ByIP(core.TrustProxies("unix:")), "unix 192.0.2.7:80", http.StatusOK},
			{k.ByIP(core.TrustProxies("unix:")), "unix proxy", http.StatusOK},
		} {
			got := c.use(c.holding(9), test.key).send(forwarded(test.peer, "203.0.113.1"))
			if c.wantStatus(got, test.status, "a peer on "+test.peer); test.status == http.StatusBadRequest {
				c.wantRefusal(got, test.status, "a peer on "+test.peer)
			}
		}
	})
}

// perIP checks the adapter's PerIP.
func (s *suite) perIP() {
	s.rule("PerIP gives each client address its own bucket of every limit", func(c *trial) {
		app := c.serve(c.app(answer(http.StatusOK), middleware{PerIP: []core.Limit{core.PerDay(3), slow(2).WithName("tight")}}))
		for i, status := range []int{200, 200, 429} {
			got := app.send(forwarded("192.0.2.1:1", "203.0.113."+strconv.Itoa(i)))
			c.wantStatus(got, status, "a client that says to be another")
			if policies := got.header.Get(policyField); !strings.Contains(policies, `"3/day"`) || !strings.Contains(policies, `"tight"`) {
				c.errorf("%s is %q, want 3/day and tight", policyField, policies)
			}
		}
		c.wantStatus(app.send(request{peer: "192.0.2.2:1"}), http.StatusOK, "another client")
	})
	s.rule("two PerIP in one app have their own buckets", func(c *trial) {
		app := c.serve(c.app(answer(http.StatusOK), middleware{PerIP: []core.Limit{slow(2)}}, middleware{PerIP: []core.Limit{slow(2)}}))
		for _, status := range []int{200, 200, 429} {
			c.wantStatus(app.send(request{}), status, "through both")
		}
	})
	s.rule("PerIP panics with every mistake", func(c *trial) {
		c.wantPanic(middleware{PerIP: []core.Limit{{Capacity: -1, RefillRate: 1, RefillInterval: time.Second}, core.Per(1, 0)}},
			"PerIP limits[0].Capacity: -1 must", "PerIP limits[1].RefillInterval: 0s must")
		c.wantPanic(middleware{PerIP: []core.Limit{}}, "PerIP limits: 0 limits: at least one is required")
		c.wantPanic(middleware{PerIP: []core.Limit{slow(2), slow(9).WithUnit("bytes")}}, `PerIP limits[1].Unit: "bytes" is never counted here`)
	})
	s.rule("PerIP takes a location of any name", func(c *trial) {
		for _, zone := range []string{"Zürich", strings.Repeat("z", 200)} {
			day := core.PerDay(1).In(time.FixedZone(zone, 3600))
			app := c.serve(c.app(answer(http.StatusOK), middleware{PerIP: []core.Limit{day}}))
			got := app.send(request{})
			c.wantStatus(got, http.StatusOK, "the first request")
			if policies := got.header.Get(policyField); !strings.Contains(policies, `"1/day in a zone"`) {
				c.errorf("%s is %q, want 1/day in a zone", policyField, policies)
			}
		}
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

// proxies checks which proxies ByIP trusts.
func (s *suite) proxies() {
	trusting := s.kit.ByIP(core.TrustProxies("10.0.0.0/8", "192.0.2.7", "2001:db8:ffff::/48"))
	cloudflare := s.kit.ByIP(core.TrustProxies("10.0.0.0/8"), core.TrustHeader("CF-Connecting-IP"))
	forwardedBy := func(peer, client string, lines ...string) request {
		r := forwarded(peer, lines...)
		r.header.Add("CF-Connecting-IP", client)
		return r
	}
	s.groupings([]grouping{
		{"clients of a trusted proxy have their own buckets", inUse, false, of(trusting,
			forwarded("10.0.0.1:1", "203.0.113.1"), forwarded("10.0.0.1:1", "203.0.113.2"), forwarded("192.0.2.7:1", "203.0.113.3"),
			forwarded("[2001:db8:ffff::1]:1", "203.0.113.4"), forwarded("[::ffff:10.0.0.1]:1", "203.0.113.5"))},
		{"a client has one bucket through one trusted proxy, through several and directly", inUse, true, of(trusting,
			forwarded("10.0.0.1:1", "203.0.113.1"), forwarded("192.0.2.7:1", "203.0.113.1"), forwarded("[2001:db8:ffff::1]:1", "203.0.113.1"),
			forwarded("10.0.0.1:1", "203.0.113.1, 10.0.0.2"), forwarded("10.0.0.1:1", "203.0.113.1 ,\t192.0.2.7,10.0.0.2"),
			forwarded("203.0.113.1:1"))},
		{"X-Forwarded-For is read from the right, so entries that a client wrote don't count", inUse, true, of(trusting,
			forwarded("10.0.0.1:1", "203.0.113.1"), forwarded("10.0.0.1:1", "198.51.100.1, 203.0.113.1"),
			forwarded("10.0.0.1:1", "10.0.0.3, 203.0.113.1, 10.0.0.2"), forwarded("10.0.0.1:1", "garbage, 203.0.113.1"))},
		{"X-Forwarded-For of an untrusted peer does not count", inUse, true, of(trusting,
			forwarded("192.0.2.1:1", "203.0.113.1"), forwarded("192.0.2.1:1", "203.0.113.2, 10.0.0.1"), forwarded("192.0.2.1:1"))},
		{"several lines of X-Forwarded-For are one list", inUse, true, of(trusting,
			forwarded("10.0.0.1:1", "203.0.113.1"), forwarded("10.0.0.1:1", "198.51.100.1", "203.0.113.1"),
			forwarded("10.0.0.1:1", "198.51.100.2", "203.0.113.1", "10.0.0.2, 10.0.0.3"))},
		{"of several lines of X-Forwarded-For the last client counts", inUse, false, of(trusting,
			forwarded("10.0.0.1:1", "203.0.113.1", "203.0.113.2"), forwarded("10.0.0.1:1", "203.0.113.2", "203.0.113.1"))},
		{"entries to the left of an invalid one don't count", inUse, true, of(trusting,
			forwarded("10.0.0.1:1", "203.0.113.1, unknown"), forwarded("10.0.0.1:1", "203.0.113.2, 1.2.3"), forwarded("10.0.0.1:1", "203.0.113.3,"))},
		{"addresses in X-Forwarded-For may have ports", inUse, true, of(trusting,
			forwarded("10.0.0.1:1", "203.0.113.1:80"), forwarded("10.0.0.1:1", "203.0.113.1"), forwarded("10.0.0.1:1", "::ffff:203.0.113.1"))},
		{"IPv6 clients of a proxy are grouped by /64", inUse, true, of(trusting,
			forwarded("10.0.0.1:1", "[2001:db8::1]:80"), forwarded("10.0.0.1:1", "2001:db8::2"), forwarded("10.0.0.1:1", "[2001:db8::3]"))},
		{"TrustHeader gives the clients of a trusted peer their own buckets", inUse, false, of(cloudflare,
			forwardedBy("10.0.0.1:1", "203.0.113.1", "198.51.100.1"), forwardedBy("10.0.0.1:1", "203.0.113.2", "198.51.100.1"), forwarded("10.0.0.1:1", "198.51.100.1"))},
		{"TrustHeader overrides X-Forwarded-For", inUse, true, of(cloudflare,
			forwardedBy("10.0.0.1:1", "203.0.113.1", "198.51.100.1"), forwardedBy("10.0.0.2:1", "203.0.113.1", "198.51.100.2"), forwardedBy("10.0.0.1:1", "203.0.113.1"))},
		{"the TrustHeader field of an untrusted peer does not count", inUse, true, of(cloudflare,
			forwardedBy("192.0.2.1:1", "203.0.113.1"), forwardedBy("192.0.2.1:1", "203.0.113.2", "10.0.0.1"), forwarded("192.0.2.1:1"))},
		{"if the TrustHeader field is missing or invalid, X-Forwarded-For counts", inUse, true, of(cloudflare,
			forwarded("10.0.0.1:1", "203.0.113.1"), forwardedBy("10.0.0.1:1", "garbage", "203.0.113.1"), forwardedBy("10.0.0.1:1", "203.0.113.1"))},
	})
}
