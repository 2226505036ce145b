package core

import (
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/tokenbucket-go/ratelimit/internal/fieldname"
)

// IPOption configures how [ClientIP] and the adapters' ByIP find a client's address.
type IPOption func(*ClientIP)

// ClientIP finds the address by which a request is limited. Without options it is the address of the connection's
// peer, which nobody can forge. Behind a proxy that peer is the proxy, so name the proxies with [TrustProxies]. A
// ClientIP is safe for concurrent use.
type ClientIP struct {
	proxies []netip.Prefix
	header  string
	prefix6 int
	errs    []error // mistakes in the options

	looked atomic.Int32 // for warnOfProxy: at how many requests, until lookAtAll
	warn   sync.Once
}

// TrustProxies names the addresses or CIDR ranges of the proxies in front of the service, such as "10.0.0.0/8" or
// "192.0.2.7". If the peer is one of them, ClientIP reads X-Forwarded-For from the right and skips trusted proxies,
// up to 32 addresses. The first address that is not a trusted proxy's is the client's. ClientIP ignores everything to
// the left of it, because a client can forge that.
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

// TrustHeader names a header field in which a trusted proxy sends the client's address, such as "CF-Connecting-IP".
// ClientIP reads it only if the peer is one of TrustProxies. If the field is missing, repeated or not an address,
// ClientIP reads X-Forwarded-For instead.
func TrustHeader(name string) IPOption {
	return func(c *ClientIP) {
		if !fieldname.Valid(name) {
			c.errs = append(c.errs, &ConfigError{"TrustHeader", name, `must be the name of a header field, such as "CF-Connecting-IP"`})
		}
		c.header = name
	}
}

// IPv6Prefix sets how many leading bits of an IPv6 address identify one client: from 1 to 128, by default 64. A
// subscriber gets at least a /64 and can use any address in it. If your clients' providers assign larger networks,
// use 56 or 48.
func IPv6Prefix(bits int) IPOption {
	return func(c *ClientIP) {
		if bits < 1 || bits > 128 {
			c.errs = append(c.errs, &ConfigError{"IPv6Prefix", bits, "must be from 1 to 128 bits"})
			return
		}
		c.prefix6 = bits
	}
}

// NewClientIP returns a ClientIP with the given options. The error reports every mistake in them: it joins one
// [ConfigError] for each. An adapter's ByIP takes the same options, and the adapter's New panics on a mistake. If the
// options come from a configuration, check them here first.
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
		slog.Warn("ratelimit: TrustHeader has no effect because no proxy is trusted: name your proxies with core.TrustProxies", "code", "RL702", "header", c.header)
	}
	for _, p := range c.proxies {
		if p.Bits() == 0 {
			slog.Warn("ratelimit: TrustProxies trusts every address, so every client can forge its own: name only your proxies", "code", "RL703", "range", p.String())
		}
	}
	return c, nil
}

// Key returns the client's key: its IPv4 address, or the network of its IPv6 address, such as "2001:db8::/64". peer is
// the connection's remote address, with or without a port. header returns all values of a request header field. If
// peer is not an IP address, as on a Unix socket, Key returns [ErrNoKey].
func (c *ClientIP) Key(peer string, header func(name string) []string) (string, error) {
	key, err := c.AppendKey(nil, peer, header)
	return string(key), err
}

// AppendKey appends the client's key to b and returns the extended slice. It is Key without the allocation.
func (c *ClientIP) AppendKey(b []byte, peer string, header func(name string) []string) ([]byte, error) {
	addr, _ := parseAddr(peer)
	return c.AppendKeyOf(b, addr, header)
}

// AppendKeyOf is AppendKey for a peer whose address need not be parsed. The zero Addr is a peer without an address.
func (c *ClientIP) AppendKeyOf(b []byte, peer netip.Addr, header func(name string) []string) ([]byte, error) {
	if !peer.IsValid() {
		return b, fmt.Errorf("%w: the peer has no IP address", ErrNoKey)
	}
	client := plain(peer)
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

// maxHops bounds how many addresses of X-Forwarded-For are read. No real chain of proxies is longer.
const maxHops = 32

// forwarded returns the client's address as hop, a trusted proxy, reports it. If all of the last maxHops addresses
// are trusted proxies, it returns the leftmost of them.
func (c *ClientIP) forwarded(hop netip.Addr, header func(string) []string) netip.Addr {
	if c.header != "" {
		if values := header(c.header); len(values) == 1 {
			if client, ok := parseAddr(values[0]); ok {
				return client
			}
		}
	}
	hops := 0
	// A field that occurs several times is one list (RFC 9110, 5.3), so read the last line first.
	for _, line := range slices.Backward(header("X-Forwarded-For")) {
		for rest := true; rest; {
			var element string
			if comma := strings.LastIndexByte(line, ','); comma >= 0 {
				line, element = line[:comma], line[comma+1:]
			} else {
				element, rest = line, false
			}
			next, ok := parseAddr(element)
			if !ok {
				return hop // no trusted proxy vouches for what is left of an invalid address
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

// warnOfProxy looks at the first lookAtAll requests. Afterwards it looks at one in lookAtOneIn, in case a proxy comes in
// front of a running service. On fasthttp a look at every request took 6 % of the time of requests.
const (
	lookAtAll   = 1000
	lookAtOneIn = 64
)

// warnOfProxy logs a warning, once, if header suggests an unnamed proxy whose clients share one bucket.
func (c *ClientIP) warnOfProxy(header func(string) []string) {
	if c.looked.Load() < lookAtAll {
		c.looked.Add(1)
	} else if rand.Uint32()%lookAtOneIn != 0 {
		return
	}
	if len(header("X-Forwarded-For")) == 0 {
		return
	}
	c.warn.Do(func() {
		slog.Warn("ratelimit: requests carry X-Forwarded-For but ByIP trusts no proxy: if a proxy is in front, all its clients share one bucket; name it with core.TrustProxies", "code", "RL701")
	})
}

// maxAddr is longer than any address with port, brackets and zone.
const maxAddr = 128

// parseAddr parses an address with or without port, brackets, zone and surrounding blanks. It returns an IPv4 address
// for one mapped into IPv6.
func parseAddr(s string) (netip.Addr, bool) {
	for s != "" && isBlank(s[0]) { // strings.Trim is slow with two characters
		s = s[1:]
	}
	for s != "" && isBlank(s[len(s)-1]) {
		s = s[:len(s)-1]
	}
	if s == "" || len(s) > maxAddr {
		return netip.Addr{}, false
	}
	// netip's parsers allocate an error for a wrong guess, so look first: brackets or a single colon mean a port.
	switch colon := strings.LastIndexByte(s, ':'); {
	case s[0] == '[': // IPv6 as in RFC 3986; some proxies write IPv4 so too
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
	return plain(a), err == nil
}

// plain returns a without a zone, and an IPv4 address for one mapped into IPv6.
func plain(a netip.Addr) netip.Addr { return a.Unmap().WithZone("") }

func isBlank(c byte) bool { return c == ' ' || c == '\t' }

// isPort reports whether s is a port number.
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
		a = plain(a)
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
