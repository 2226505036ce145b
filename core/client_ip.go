package core

import (
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"net/netip"
	"slices"
	"strings"
	"sync/atomic"

	"github.com/tokenbucket-go/ratelimit/core/internal/mistake"
	"github.com/tokenbucket-go/ratelimit/core/internal/printable"
	"github.com/tokenbucket-go/ratelimit/internal/fieldname"
	"github.com/tokenbucket-go/ratelimit/internal/forwarded"
)

// IPOption configures how [ClientIP] and the adapters' ByIP find a client's address.
type IPOption func(*ClientIP)

// ClientIP finds the address by which a request is limited. Without options it is the address of the connection's
// peer. Behind a proxy that peer is the proxy, so name the proxies with [TrustProxies]. A ClientIP is safe for
// concurrent use.
//
// Nobody can forge the address of a peer, but middleware may replace it by what a header field says, and then every
// client chooses its own. ClientIP refuses an address that was rewritten: see [ErrRewrittenAddr].
type ClientIP struct {
	proxies   []netip.Prefix
	socket    bool // peers on Unix sockets are trusted
	rewritten bool // the peer's address may be rewritten
	header    string
	list      forwarded.List
	prefix6   int
	errs      []error // mistakes in the options

	looked atomic.Int32 // for proxyField: at how many requests, until lookAtAll
	warned atomic.Bool  // of a proxy that was not named
}

// TrustProxies names the addresses or CIDR ranges of the proxies in front of the service, such as "10.0.0.0/8" or
// "192.0.2.7". If the peer is one of them, ClientIP reads X-Forwarded-For from the right and skips trusted proxies,
// up to 32 addresses. The first address that is not a trusted proxy's is the client's. ClientIP ignores everything to
// the left of it, because a client can forge that.
func TrustProxies(prefixes ...string) IPOption {
	return func(c *ClientIP) {
		for _, s := range prefixes {
			p, err := forwarded.ParsePrefix(s)
			if err != nil {
				c.errs = append(c.errs, mistake.New("TrustProxies", s, `must be an IP address or a CIDR range, such as "192.0.2.7" or "10.0.0.0/8"`))
				continue
			}
			c.proxies = append(c.proxies, p)
		}
	}
}

// TrustUnixSocket trusts a peer that connects through a Unix socket as [TrustProxies] trusts an address: it is the proxy
// in front of the service. Without this option a request through a socket has no address, and the error is [ErrNoKey].
// Everybody who can write to the socket can choose an address.
func TrustUnixSocket() IPOption {
	return func(c *ClientIP) { c.socket = true }
}

// TrustForwarded has ClientIP read the field Forwarded (RFC 7239) instead of X-Forwarded-For, in the same way: from the
// right, and only from trusted peers. Use it if your proxies write Forwarded. A proxy that does not write the field
// passes on what clients send. An element without an address ends the search: one with an obfuscated identifier, such as
// for=_hidden, with for=unknown, or without for. The address is then that of the proxy that sent the element.
func TrustForwarded() IPOption {
	return func(c *ClientIP) { c.list = forwarded.RFC7239 }
}

// TrustHeader names a header field in which a trusted proxy sends the client's address, such as "CF-Connecting-IP".
// ClientIP reads it only if the peer is trusted. If the field is missing, repeated or not an address, ClientIP reads
// X-Forwarded-For instead, or Forwarded with [TrustForwarded].
func TrustHeader(name string) IPOption {
	return func(c *ClientIP) {
		if !fieldname.Valid(name) {
			c.errs = append(c.errs, mistake.New("TrustHeader", name, `must be the name of a header field, such as "CF-Connecting-IP"`))
		}
		c.header = name
	}
}

// DangerouslyTrustRemoteAddr takes the peer's address as it is, also if it was rewritten, so that there is no
// [ErrRewrittenAddr]. With middleware that rewrites it, such as chi's RealIP, every client chooses its own address. It is
// for hosts that know the address of the client and set it without a port, such as adapters for AWS Lambda.
func DangerouslyTrustRemoteAddr() IPOption {
	return func(c *ClientIP) { c.rewritten = true }
}

// IPv6Prefix sets how many leading bits of an IPv6 address identify one client: from 1 to 128, by default 64. A
// subscriber gets at least a /64 and can use any address in it. If your clients' providers assign larger networks,
// use 56 or 48.
func IPv6Prefix(bits int) IPOption {
	return func(c *ClientIP) {
		if bits < 1 || bits > 128 {
			c.errs = append(c.errs, mistake.New("IPv6Prefix", bits, "must be from 1 to 128 bits"))
			return
		}
		c.prefix6 = bits
	}
}

// NewClientIP returns a ClientIP with the given options. The error reports every mistake in them: it joins one
// [ConfigError] for each. An adapter's ByIP takes the same options, and the adapter's New panics on a mistake. If the
// options come from a configuration, check them here first.
func NewClientIP(options ...IPOption) (*ClientIP, error) {
	c := &ClientIP{prefix6: 64, list: forwarded.XForwardedFor}
	for _, o := range options {
		if o != nil {
			o(c)
		}
	}
	if len(c.errs) > 0 {
		return nil, errors.Join(c.errs...)
	}
	if len(c.proxies) == 0 && !c.socket {
		switch {
		case c.header != "":
			slog.Warn(noEffect("TrustHeader"), "code", "RL702", "header", c.header)
		case c.list.Field == forwarded.RFC7239.Field:
			slog.Warn(noEffect("TrustForwarded"), "code", "RL702", "header", c.list.Field)
		}
	}
	for _, p := range c.proxies {
		if p.Bits() == 0 {
			slog.Warn("ratelimit: TrustProxies trusts every address, so every client can forge its own: name only your proxies", "code", "RL703", "range", p.String())
		}
	}
	return c, nil
}

func noEffect(option string) string {
	return "ratelimit: " + option + " has no effect because no proxy is trusted: name your proxies with core.TrustProxies"
}

// Key returns the client's key: its IPv4 address, or the network of its IPv6 address, such as "2001:db8::/64". peer is
// the connection's remote address as net/http shows it, with its port. header returns all values of a request header
// field. If peer is not an IP address, as on a Unix socket, Key returns [ErrNoKey]. If peer was rewritten, it returns
// [ErrRewrittenAddr].
func (c *ClientIP) Key(peer string, header func(name string) []string) (string, error) {
	network, proxyField, err := c.client(peer, netip.Addr{}, header)
	if err != nil {
		return "", err
	}
	if proxyField != "" {
		warnOfProxy(slog.Default(), peer, proxyField)
	}
	if network.Addr().Is4() {
		return network.Addr().String(), nil
	}
	return network.String(), nil
}

const proxyMessage = "ratelimit: a peer that ByIP does not trust sends a proxy's field: if it is your proxy, all its clients share one bucket; name it with core.TrustProxies"

// warnOfProxy logs that a peer that is not trusted sends a proxy's field.
func warnOfProxy(log *slog.Logger, peer, field string) {
	if addr, _, ok := forwarded.ParseAddr(peer); ok {
		peer = forwarded.Plain(addr).String()
	}
	log.Warn(proxyMessage, "code", "RL701", "peer", peer, "header", field)
}

// client returns the network whose address or prefix is the client's key. peer is its remote address as text, or addr if that is
// known from the connection, so that it can't be rewritten. proxyField is the field that makes peer look like a proxy that was
// not named, once, else "".
func (c *ClientIP) client(peer string, addr netip.Addr, header func(string) []string) (network netip.Prefix, proxyField string, err error) {
	socket := false
	if !addr.IsValid() {
		var port, ok bool
		addr, port, ok = forwarded.ParseAddr(peer)
		switch {
		case !ok:
			addr, socket = netip.Addr{}, peer == "" || peer[0] == '@' || peer[0] == '/'
		case c.rewritten:
		case !port:
			return network, "", fmt.Errorf("%w: %q has no port: %s", ErrRewrittenAddr, printable.Clip(peer, 80), insteadOfRewriting)
		case c.sent(peer, header):
			return network, "", fmt.Errorf("%w: a header field says %q: %s", ErrRewrittenAddr, printable.Clip(peer, 80), insteadOfRewriting)
		}
	}
	client := forwarded.Plain(addr)
	switch {
	case socket && c.socket, c.trusts(client):
		client = c.reported(client, header)
	case addr.IsValid():
		proxyField = c.proxyField(header)
	}
	switch {
	case client.Is4():
		return netip.PrefixFrom(client, 32), proxyField, nil
	case client.IsValid():
		network, err := client.Prefix(c.prefix6)
		if err != nil {
			return network, "", fmt.Errorf("%w: %w", ErrNoKey, err)
		}
		return network, proxyField, nil
	case socket && c.socket:
		return network, "", fmt.Errorf("%w: the proxy on the Unix socket sends no address in %s", ErrNoKey, c.list.Field)
	case socket:
		return network, "", fmt.Errorf("%w: the peer has no IP address: if it is your proxy on a Unix socket, use core.TrustUnixSocket", ErrNoKey)
	}
	return network, "", fmt.Errorf("%w: the peer has no IP address", ErrNoKey)
}

const insteadOfRewriting = "remove the middleware that rewrites RemoteAddr and name your proxies with core.TrustProxies, " +
	"or use core.DangerouslyTrustRemoteAddr if no client can choose the address"

// rewritingFields are those from which middleware is known to rewrite RemoteAddr.
var rewritingFields = [...]string{"X-Forwarded-For", "X-Real-Ip", "True-Client-Ip", "Forwarded"}

// sent reports whether the request itself says the address and port of its peer. A proxy sends addresses of its clients and
// never its own, so middleware has rewritten peer.
func (c *ClientIP) sent(peer string, header func(string) []string) bool {
	for _, field := range rewritingFields {
		for _, value := range header(field) {
			if strings.Contains(value, peer) {
				return true
			}
		}
	}
	return false
}

// maxHops bounds how many addresses of X-Forwarded-For or Forwarded are read. No real chain of proxies is longer.
const maxHops = 32

// reported returns the client's address as hop, a trusted proxy, reports it. If all of the last maxHops addresses
// are trusted proxies, it returns the leftmost of them.
func (c *ClientIP) reported(hop netip.Addr, header func(string) []string) netip.Addr {
	if c.header != "" {
		if values := header(c.header); len(values) == 1 {
			if client, _, ok := forwarded.ParseAddr(values[0]); ok {
				return client
			}
		}
	}
	hops := 0
	// A field that occurs several times is one list (RFC 9110, 5.3), so read the last line first.
	for _, line := range slices.Backward(header(c.list.Field)) {
		for rest := true; rest; {
			var next netip.Addr
			var ok bool
			next, ok, line, rest = c.list.Last(line)
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

// proxyField looks at the first lookAtAll requests of peers that are not trusted. Afterwards it looks at one in
// lookAtOneIn, in case a proxy comes in front of a running service. On fasthttp a look at every request took 6 % of the
// time of requests.
const (
	lookAtAll   = 1000
	lookAtOneIn = 64
)

// proxyField returns a field, once, that suggests that the peer is a proxy that was not named: its clients share one bucket.
func (c *ClientIP) proxyField(header func(string) []string) string {
	if c.looked.Load() < lookAtAll {
		c.looked.Add(1)
	} else if rand.Uint32()%lookAtOneIn != 0 {
		return ""
	}
	for _, field := range [...]string{c.header, "X-Forwarded-For", "Forwarded"} {
		if field == "" || len(header(field)) == 0 {
			continue
		}
		if c.warned.CompareAndSwap(false, true) {
			return field
		}
		break
	}
	return ""
}
