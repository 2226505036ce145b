package core

import (
	"errors"
	"fmt"
	"log/slog"
	"net/netip"
	"slices"
	"strings"
	"sync"

	"github.com/tokenbucket-go/ratelimit/internal/fieldname"
)

// IPOption tells [ClientIP] and the adapters' ByIP whose word to take for a client's address.
type IPOption func(*ClientIP)

// ClientIP finds the address a request is limited by. Without options that is the peer of the
// connection, the one address nobody can forge; behind a proxy it is the proxy's, so name the
// proxies with [TrustProxies]. It is safe for concurrent use.
type ClientIP struct {
	proxies []netip.Prefix
	header  string
	prefix6 int
	errs    []error // mistakes in the options

	warn sync.Once
}

// TrustProxies names the addresses or CIDR ranges of the proxies in front of the service, such as
// "10.0.0.0/8" or "192.0.2.7". When the peer is one of them, X-Forwarded-For is read from the right,
// past every trusted hop, of which there may be 32: the first address that is not a trusted proxy's is the
// client's. What stands to the left of it can be forged and is not read.
func TrustProxies(prefixes ...string) IPOption {
	return func(c *ClientIP) {
		for _, s := range prefixes {
			p, err := parsePrefix(s)
			if err != nil {
				c.errs = append(c.errs, &ConfigError{"TrustProxies", s, `must be an IP address or a CIDR range, such as "192.0.2.7" or "10.0.0.0/8"`})
				continue
			}
			c.proxies = append(c.proxies, p)
		}
	}
}

// TrustHeader names a header in which a trusted peer tells the client's address, such as
// "CF-Connecting-IP". It is read only when the peer is one of TrustProxies; when it is missing or
// no address, X-Forwarded-For is.
func TrustHeader(name string) IPOption {
	return func(c *ClientIP) {
		if !fieldname.Valid(name) {
			c.errs = append(c.errs, &ConfigError{"TrustHeader", name, `must be the name of a header field, such as "CF-Connecting-IP"`})
		}
		c.header = name
	}
}

// IPv6Prefix sets how many leading bits of an IPv6 address name one client: from 1 to 128, by default
// 64, the smallest network a subscriber gets and can take any address of. Providers that give away
// shorter prefixes call for 56 or 48.
func IPv6Prefix(bits int) IPOption {
	return func(c *ClientIP) {
		if bits < 1 || bits > 128 {
			c.errs = append(c.errs, &ConfigError{"IPv6Prefix", bits, "must be from 1 to 128 bits"})
			return
		}
		c.prefix6 = bits
	}
}

// NewClientIP returns a ClientIP, or every mistake in the options: the error joins a [ConfigError] for each. An
// adapter's ByIP takes the same options and its New panics with these mistakes, so check options that come from
// a configuration here first.
func NewClientIP(options ...IPOption) (*ClientIP, error) {
	c := &ClientIP{prefix6: 64}
	for _, o := range options {
		if o != nil {
			o(c)
		}
	}
	if len(c.errs) > 0 {
		return nil, errors.Join(c.errs...)
	}
	if c.header != "" && len(c.proxies) == 0 {
		slog.Warn("ratelimit: TrustHeader is never read, because no proxy is trusted: name yours with core.TrustProxies", "header", c.header)
	}
	for _, p := range c.proxies {
		if p.Bits() == 0 {
			slog.Warn("ratelimit: TrustProxies trusts every address, so every client can choose the one it is limited by: name your proxies only", "range", p.String())
		}
	}
	return c, nil
}

// Key returns the key of the client: its IPv4 address, or the network of its IPv6 address, such as
// "2001:db8::/64". peer is the connection's address, with or without a port; header returns all
// values of a request header field. A peer without an address, as on a Unix socket, is [ErrNoKey].
func (c *ClientIP) Key(peer string, header func(name string) []string) (string, error) {
	key, err := c.AppendKey(nil, peer, header)
	return string(key), err
}

// AppendKey appends the key of the client to b: see Key.
func (c *ClientIP) AppendKey(b []byte, peer string, header func(name string) []string) ([]byte, error) {
	client, ok := parseAddr(peer)
	if !ok {
		return b, fmt.Errorf("%w: the peer has no IP address", ErrNoKey)
	}
	if c.trusts(client) {
		client = c.forwarded(client, header)
	} else if len(c.proxies) == 0 {
		c.warnOfProxy(header)
	}
	if client.Is4() {
		return client.AppendTo(b), nil
	}
	network, err := client.Prefix(c.prefix6)
	if err != nil {
		return b, fmt.Errorf("%w: %w", ErrNoKey, err)
	}
	return network.AppendTo(b), nil
}

// maxHops bounds how many trusted hops of X-Forwarded-For are read: more are no real chain of proxies.
const maxHops = 32

// forwarded is the client for whom the trusted hop speaks. Behind maxHops of them it is the last that was read.
func (c *ClientIP) forwarded(hop netip.Addr, header func(string) []string) netip.Addr {
	if c.header != "" {
		if values := header(c.header); len(values) == 1 {
			if client, ok := parseAddr(values[0]); ok {
				return client
			}
		}
	}
	hops := 0
	for _, line := range slices.Backward(header("X-Forwarded-For")) {
		for more := true; more; {
			var element string
			if comma := strings.LastIndexByte(line, ','); comma >= 0 {
				line, element = line[:comma], line[comma+1:]
			} else {
				element, more = line, false
			}
			next, ok := parseAddr(element)
			if !ok {
				return hop // nobody vouches for what stands left of garbage
			}
			hop = next
			if hops++; hops == maxHops || !c.trusts(hop) {
				return hop
			}
		}
	}
	return hop
}

func (c *ClientIP) trusts(a netip.Addr) bool {
	for _, p := range c.proxies {
		if p.Contains(a) {
			return true
		}
	}
	return false
}

// warnOfProxy says once that a proxy seems to be in front and its clients share one bucket.
func (c *ClientIP) warnOfProxy(header func(string) []string) {
	if len(header("X-Forwarded-For")) == 0 {
		return
	}
	c.warn.Do(func() {
		slog.Warn("ratelimit: X-Forwarded-For arrives but ByIP trusts no proxy: if one is in front, all its clients share its bucket; name it with core.TrustProxies")
	})
}

// maxAddr is more than any address with port, brackets and zone has.
const maxAddr = 128

// parseAddr reads an address with or without port, brackets, zone and surrounding space. IPv4 mapped
// into IPv6 is IPv4.
func parseAddr(s string) (netip.Addr, bool) {
	for s != "" && isBlank(s[0]) { // strings.Trim is slow with two
		s = s[1:]
	}
	for s != "" && isBlank(s[len(s)-1]) {
		s = s[:len(s)-1]
	}
	if s == "" || len(s) > maxAddr {
		return netip.Addr{}, false
	}
	// What is wrong would cost an error, so look at it first: brackets, or a single colon, mean a port.
	switch colon := strings.LastIndexByte(s, ':'); {
	case s[0] == '[': // IPv6 as RFC 3986 has it, and what proxies make of IPv4
		end := strings.IndexByte(s, ']')
		if end < 0 || end+1 < len(s) && (s[end+1] != ':' || !isPort(s[end+2:])) {
			return netip.Addr{}, false
		}
		s = s[1:end]
	case colon >= 0 && colon == strings.IndexByte(s, ':'):
		if !isPort(s[colon+1:]) {
			return netip.Addr{}, false
		}
		s = s[:colon]
	}
	a, err := netip.ParseAddr(s)
	return a.Unmap().WithZone(""), err == nil
}

func isBlank(c byte) bool { return c == ' ' || c == '\t' }

// isPort reports whether s is the number of a port.
func isPort(s string) bool {
	n := 0
	for i := range len(s) {
		if n = 10*n + int(s[i]-'0'); s[i] < '0' || s[i] > '9' || n > 65535 {
			return false
		}
	}
	return s != ""
}

func parsePrefix(s string) (netip.Prefix, error) {
	if a, err := netip.ParseAddr(s); err == nil {
		a = a.Unmap().WithZone("")
		return netip.PrefixFrom(a, a.BitLen()), nil
	}
	p, err := netip.ParsePrefix(s)
	if err != nil {
		return netip.Prefix{}, err
	}
	if a := p.Addr(); a.Is4In6() && p.Bits() >= 96 {
		p = netip.PrefixFrom(a.Unmap(), p.Bits()-96)
	}
	return p.Masked(), nil
}
