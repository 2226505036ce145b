package adaptertest

import (
	"context"
	"errors"
	"net/http"
	"strings"

	"github.com/tokenbucket-go/ratelimit/core"
	"github.com/tokenbucket-go/ratelimit/internal/logtest"
)

// clientIP checks what handlers get to know of a client's address.
func (s *suite) clientIP() {
	proxied := []core.IPOption{core.TrustProxies("10.0.0.0/8")}
	for _, client := range []struct {
		who   string
		trust []core.IPOption
		request
		want string
	}{
		{"an IPv4 client", nil, request{peer: "192.0.2.1:1"}, "192.0.2.1"},
		{"an IPv4 client over IPv6", nil, request{peer: "[::ffff:192.0.2.1]:1"}, "192.0.2.1"},
		{"an IPv6 client, by its /64", nil, request{peer: "[2001:db8:1:2:3::4]:1"}, "2001:db8:1:2::/64"},
		{"an IPv6 client with IPv6Prefix(56)", []core.IPOption{core.IPv6Prefix(56)}, request{peer: "[2001:db8:1:2ff::4]:1"}, "2001:db8:1:200::/56"},
		{"a client of a trusted proxy", proxied, forwarded("10.0.0.1:1", "203.0.113.1"), "203.0.113.1"},
		{"an IPv6 client of a trusted proxy", proxied, forwarded("10.0.0.1:1", "2001:db8:1:2:3::4"), "2001:db8:1:2::/64"},
		{"a client of a trusted proxy that forges an address", proxied, forwarded("10.0.0.1:1", "198.51.100.1, 203.0.113.1"), "203.0.113.1"},
		{"a client that forges an address without a proxy", proxied, forwarded("192.0.2.1:1", "203.0.113.1"), "192.0.2.1"},
		{"a client that forges an address if no proxy is trusted", nil, forwarded("192.0.2.1:1", "203.0.113.1"), "192.0.2.1"},
	} {
		s.rule("ClientIP tells a handler what ByIP limits by: "+client.who, func(c *trial) {
			var got string
			limiter := c.holding(9)
			app := c.serve(c.app(answer(http.StatusOK), middleware{Limiter: limiter, Key: c.kit.ByIP(client.trust...)}, c.learns(client.trust, func(ip string, err error) {
				if got = ip; err != nil {
					c.errorf("ClientIP: %v", err)
				}
			})))
			c.wantStatus(app.send(client.request), http.StatusOK, client.who)
			if got != client.want {
				c.errorf("ClientIP returned %q, want %q", got, client.want)
			}
			if res, err := limiter.Peek(context.Background(), "ip:"+got); err != nil || res.Remaining != 8 {
				c.errorf("ByIP did not take a token of ip:%s: %d of 9 are left, error %v", got, res.Remaining, err)
			}
		})
	}
	s.clientIPFails()
}

// learns returns a handler that gives learned what ClientIP returns.
func (c *trial) learns(trust []core.IPOption, learned func(ip string, err error)) middleware {
	return middleware{Limiter: c.limiter(core.Policy{Name: "handler", Limits: []core.Limit{slow(99)}}), Handler: &handler{trust: trust, client: func(ip string, err error) string {
		learned(ip, err)
		return "all"
	}}}
}

// clientIPFails checks clients without an address, and mistakes of the app.
func (s *suite) clientIPFails() {
	for _, trouble := range []struct {
		who  string
		peer string
		want error
	}{
		{"a client without an address", "@", core.ErrNoKey},
		{"an address that was rewritten", "203.0.113.1", core.ErrRewrittenAddr},
	} {
		s.rule("ClientIP returns the error of ByIP for "+trouble.who, func(c *trial) {
			var ip string
			var err error
			app := c.serve(c.app(answer(http.StatusOK), c.learns(nil, func(i string, e error) { ip, err = i, e })))
			c.wantStatus(app.send(request{peer: trouble.peer}), http.StatusOK, trouble.who)
			if ip != "" || !errors.Is(err, trouble.want) {
				c.errorf("ClientIP returned %q, %v, want the error %v", ip, err, trouble.want)
			}
		})
	}
	s.rule("ClientIP panics with all mistakes in its options", func(c *trial) {
		c.wantPanic(c.learns([]core.IPOption{core.TrustProxies("10.0.0.0/33"), core.IPv6Prefix(129)}, func(string, error) {}),
			`TrustProxies: "10.0.0.0/33" must be`, "IPv6Prefix: 129 must be")
	})
	s.rule("ClientIP warns once of a proxy that is not trusted", func(c *trial) {
		log := logtest.Capture(func() {
			app := c.serve(c.app(answer(http.StatusOK), c.learns(nil, func(string, error) {})))
			for range 3 {
				c.wantStatus(app.send(forwarded("192.0.2.1:1", "203.0.113.1")), http.StatusOK, "a client of a proxy")
			}
		})
		if strings.Count(log, "RL701") != 1 || !strings.Contains(log, "peer=192.0.2.1") {
			c.errorf("the log has not one line of RL701 about 192.0.2.1: %s", log)
		}
	})
}
