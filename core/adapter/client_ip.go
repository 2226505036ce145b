package adapter

import (
	"cmp"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"net"
	"net/netip"
	"slices"
	"strings"
	"sync/atomic"

	"github.com/tokenbucket-go/ratelimit/core"
	"github.com/tokenbucket-go/ratelimit/core/internal/forwarded"
	"github.com/tokenbucket-go/ratelimit/core/internal/printable"
	"github.com/tokenbucket-go/ratelimit/core/middleware"
)

// ByIP limits by the client's address. [core.IPOption] says which proxies it
// trusts. Its keys are such as ip:192.0.2.1 and, for a network of IPv6,
// ip:2001:db8::/64.
func ByIP(options ...core.IPOption) KeyFunc {
	ip, err := newFinder(options)
	if err != nil {
		return middleware.Invalid[Request, string](err)
	}
	return func(x Request) (string, error) {
		client, err := clientOf(ip, x)
		if err != nil {
			return "", err
		}
		if w := client.warning; w.code != "" {
			path := x.Path()
			x.SetDecision(middleware.Marker("", func(log *slog.Logger) { w.log(log, path) }, x.Decision()))
		}
		var room [64]byte                                             // on the stack: 257 ns and 2 allocations, with a nil slice 442 ns and 4
		return string(client.append(append(room[:0], "ip:"...))), nil // needs no escaping: nothing follows the address
	}
}

// ClientIP returns a function by which handlers find what [ByIP] limits by,
// without the "ip:" in front: the client's IPv4 address, or the network of its
// IPv6 address. It panics with all mistakes in options. Make the function once,
// as a limiter, because it logs what is wrong with a deployment once.
func ClientIP(options ...core.IPOption) func(Request) (string, error) {
	ip, err := newFinder(options)
	if err != nil {
		middleware.RefuseArguments(err)
	}
	return func(x Request) (string, error) {
		client, err := clientOf(ip, x)
		if err != nil {
			return "", err
		}
		if client.warning.code != "" {
			client.warning.log(slog.Default(), x.Path())
		}
		return string(client.append(nil)), nil
	}
}

// client is who sent a request, and its peer, which may be a proxy.
type client struct {
	network netip.Prefix
	remote  string     // the peer's address as text, unless addr is known
	addr    netip.Addr // of the peer
	warning proxyWarning
}

// clientOf finds the client that sent x.
func clientOf(ip *finder, x Request) (c client, err error) {
	if p, ok := x.(Peer); ok {
		c.addr = p.RemoteIP()
	}
	var local net.Addr
	if !c.addr.IsValid() {
		c.remote, local = x.RemoteAddr(), x.LocalAddr()
	}
	var e ending
	if c.network, e, err = ip.network(c.remote, c.addr, local, x.Header); err == nil {
		c.warning = ip.warningOf(&c, e)
	}
	return c, err
}

func (c *client) peer() string { return cmp.Or(c.remote, c.addr.String()) }

// append appends the network as text to b, of IPv4 without its length.
func (c *client) append(b []byte) []byte {
	if c.network.Addr().Is4() {
		return c.network.Addr().AppendTo(b)
	}
	return c.network.AppendTo(b)
}

// finder finds clients' addresses, as [core.IPOption] options say. It is safe
// for concurrent use.
//
// Nobody can forge the address of a peer, but middleware may replace it by what
// a header field says, and then every client chooses its own. A finder refuses
// an address that was rewritten.
type finder struct {
	proxies []netip.Prefix // trusted peers
	socket  bool           // peers on Unix sockets are trusted
	header  string         // a field with the client's address; "": none
	list    forwarded.List // the field in which each proxy appends an address
	prefix6 int            // so many bits of an IPv6 address identify a client

	looked atomic.Int32 // for a proxy's field: at how many requests, until lookAtAll
	warned proxyWarnings
}

// newFinder returns a finder. The error joins one [core.ConfigError] for each
// mistake in the options.
func newFinder(options []core.IPOption) (*finder, error) {
	f := &finder{list: forwarded.XForwardedFor, prefix6: 64}
	var errs []error
	for _, o := range options {
		errs = append(errs, o.Err)
		f.proxies, f.socket = append(f.proxies, o.Proxies...), f.socket || o.UnixSocket
		f.prefix6 = cmp.Or(o.IPv6Prefix, f.prefix6)
		switch {
		case strings.EqualFold(o.Header, forwarded.RFC7239.Field):
			f.list = forwarded.RFC7239
		case o.Header != "":
			f.header = o.Header
		}
	}
	if err := errors.Join(errs...); err != nil {
		return nil, err
	}
	if field := cmp.Or(f.header, f.list.Field); len(f.proxies) == 0 && !f.socket && field != forwarded.XForwardedFor.Field {
		slog.Warn("ratelimit: TrustHeader has no effect because no proxy is trusted: name your proxies with core.TrustProxies", "code", "RL702", "header", field)
	}
	for _, p := range f.proxies {
		if p.Bits() == 0 {
			slog.Warn("ratelimit: TrustProxies trusts every address, so every client can forge its own: name only your proxies", "code", "RL703", "range", p.String())
		}
	}
	return f, nil
}

// network returns the network whose address or prefix is the client's key. peer
// is the remote address as text, or addr if that is known from the connection,
// so that it can't be rewritten. local is the connection's own end, or nil if it
// is not known. If peer is not an IP address, as on a Unix socket, it returns
// [core.ErrNoKey]. If peer was rewritten, it returns [core.ErrBadKey].
func (f *finder) network(peer string, addr netip.Addr, local net.Addr, header func(string) []string) (found netip.Prefix, e ending, err error) {
	socket := false
	if !addr.IsValid() {
		var port, ok bool
		addr, port, ok = forwarded.ParseAddr(peer)
		socket = isSocket(peer, local)
		switch {
		case socket || !ok:
			addr = netip.Addr{}
		case !port:
			return found, e, fmt.Errorf("%w: middleware has rewritten the peer's address: %q has no port: %s", core.ErrBadKey, printable.Clip(peer, 80), insteadOfRewriting)
		case f.sent(peer, header):
			return found, e, fmt.Errorf("%w: middleware has rewritten the peer's address: a header field says %q: %s", core.ErrBadKey, printable.Clip(peer, 80), insteadOfRewriting)
		}
	}
	client := forwarded.Plain(addr)
	switch {
	case socket && f.socket, f.trusts(client):
		client, e = f.reported(client, header)
	case addr.IsValid():
		e = ending{kind: ownField, field: f.proxyField(header)}
	}
	switch {
	case client.Is4():
		return netip.PrefixFrom(client, 32), e, nil
	case client.IsValid():
		found, err := client.Prefix(f.prefix6)
		if err != nil {
			return found, e, fmt.Errorf("%w: %w", core.ErrNoKey, err)
		}
		return found, e, nil
	case socket && f.socket:
		return found, e, fmt.Errorf("%w: the proxy on the Unix socket sends no address in %s", core.ErrNoKey, f.list.Field)
	case socket:
		return found, e, fmt.Errorf("%w: the peer has no IP address: if it is your proxy on a Unix socket, use core.TrustProxies(\"unix:\")", core.ErrNoKey)
	}
	return found, e, fmt.Errorf("%w: the peer has no IP address", core.ErrNoKey)
}

// isSocket reports whether a connection is on a Unix socket. Its network
// decides, because clients choose the names of their sockets, such as
// 192.0.2.7:80, and middleware may rewrite the name of a TCP peer to that of a
// socket.
func isSocket(peer string, local net.Addr) bool {
	if local != nil {
		return strings.HasPrefix(local.Network(), "unix")
	}
	return peer == "" || peer[0] == '@' || peer[0] == '/'
}

const insteadOfRewriting = "install the limiter in front of the middleware that rewrites RemoteAddr, or remove that, and name your proxies with core.TrustProxies"

// rewritingFields are those from which middleware rewrites RemoteAddr.
var rewritingFields = [...]string{"X-Forwarded-For", "X-Real-Ip", "True-Client-Ip", "Forwarded"}

// sent reports whether the request itself says the address and port of its
// peer. A proxy sends addresses of its clients and never its own, so middleware
// has rewritten peer.
func (f *finder) sent(peer string, header func(string) []string) bool {
	for _, field := range rewritingFields {
		for _, value := range header(field) {
			if strings.Contains(value, peer) {
				return true
			}
		}
	}
	return false
}

// maxHops is how many addresses are read at most. No real chain is longer.
const maxHops = 32

// reported returns the client's address as hop, a trusted proxy, reports it, and
// how the search for it ended. If all of the last maxHops addresses are trusted
// proxies, it returns the leftmost of them.
func (f *finder) reported(hop netip.Addr, header func(string) []string) (netip.Addr, ending) {
	field, own := cmp.Or(f.header, f.list.Field), []string(nil)
	if f.header != "" {
		if own = header(f.header); len(own) == 1 {
			if client, _, ok := forwarded.ParseAddr(own[0]); ok {
				return client, ending{}
			}
		}
	}
	hops := 0
	// A field that occurs several times is one list (RFC 9110, 5.3).
	for i, line := range slices.Backward(header(f.list.Field)) {
		for rest := true; rest; {
			element := line
			var next netip.Addr
			var ok bool
			if next, ok, line, rest = f.list.Last(line); !ok {
				if rest {
					element = element[len(line)+1:]
				}
				return hop, ending{unread, f.list.Field, element} // no trusted proxy vouches for what is left of it
			}
			hop = next
			switch hops++; {
			case !f.trusts(hop) && (rest || i > 0):
				return hop, ending{ownList, f.list.Field, ""}
			case !f.trusts(hop), hops == maxHops:
				return hop, ending{}
			}
		}
	}
	switch {
	case hops > 0:
		return hop, ending{}
	case len(own) > 0:
		return hop, ending{unread, field, strings.Join(own, ", ")}
	}
	return hop, ending{missing, field, ""}
}

func (f *finder) trusts(a netip.Addr) bool {
	for _, p := range f.proxies {
		if p.Contains(a) {
			return true
		}
	}
	return false
}

// network looks for a proxy's field in the first lookAtAll requests of peers
// that are not trusted. Afterwards it looks in one of lookAtOneIn, in case a
// proxy comes in front of a running service. On fasthttp a look at every
// request took 6 % of the time of requests.
const (
	lookAtAll   = 1000
	lookAtOneIn = 64
)

// proxyField returns a field that suggests that the peer is a proxy that was not
// named: its clients share one bucket.
func (f *finder) proxyField(header func(string) []string) string {
	if f.looked.Load() < lookAtAll {
		f.looked.Add(1)
	} else if rand.Uint32()%lookAtOneIn != 0 {
		return ""
	}
	for _, field := range [...]string{f.header, "X-Forwarded-For", "Forwarded"} {
		if field != "" && len(header(field)) > 0 {
			return field
		}
	}
	return ""
}
