package adapter

import (
	"cmp"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"net/netip"

	"github.com/tokenbucket-go/ratelimit/core"
	"github.com/tokenbucket-go/ratelimit/core/clientip"
	"github.com/tokenbucket-go/ratelimit/core/internal/field"
	"github.com/tokenbucket-go/ratelimit/core/middleware"
)

// ByIP limits by the client's address. [core.IPOption] says which proxies it trusts.
func ByIP(options ...core.IPOption) KeyFunc {
	ip, err := clientip.New(options...)
	if err != nil {
		return middleware.Invalid[Request, string](err)
	}
	return func(x Request) (string, error) {
		client, err := clientOf(ip, x)
		if err != nil {
			return "", err
		}
		if client.proxyField != "" {
			x.SetDecision(proxyMarker(client.peer(), client.proxyField, x.Decision()))
		}
		var room [64]byte                                             // on the stack: 257 ns and 2 allocations, with a nil slice 442 ns and 4
		return string(client.append(append(room[:0], "ip:"...))), nil // needs no escaping: nothing follows the address
	}
}

// ClientIP returns a function by which handlers find what [ByIP] limits by, without the "ip:" in front: the client's IPv4 address, or
// the network of its IPv6 address. It panics with all mistakes in options. Make the function once, as a limiter, because it logs what
// is wrong with a deployment once.
func ClientIP(options ...core.IPOption) func(Request) (string, error) {
	ip, err := clientip.New(options...)
	if err != nil {
		middleware.RefuseArguments(err)
	}
	return func(x Request) (string, error) {
		client, err := clientOf(ip, x)
		if err != nil {
			return "", err
		}
		if client.proxyField != "" {
			clientip.ReportProxy(slog.Default(), client.peer(), client.proxyField)
		}
		return string(client.append(nil)), nil
	}
}

// client is who sent a request: its network, and the connection's peer, which may be a proxy.
type client struct {
	network    netip.Prefix
	remote     string     // the peer's address as text, unless addr is known
	addr       netip.Addr // of the peer
	proxyField string     // once, if the peer looks like a proxy that was not named
}

// clientOf finds the client that sent x.
func clientOf(ip *clientip.Finder, x Request) (c client, err error) {
	if p, ok := x.(Peer); ok {
		c.addr = p.RemoteIP()
	}
	var local net.Addr
	if !c.addr.IsValid() {
		c.remote, local = x.RemoteAddr(), x.LocalAddr()
	}
	c.network, c.proxyField, err = ip.Network(c.remote, c.addr, local, x.Header)
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

// proxyMarker returns the marker of a peer that sends a proxy's field.
func proxyMarker(peer, field string, outer *middleware.Decision) *middleware.Decision {
	return middleware.Marker("", func(log *slog.Logger) { clientip.ReportProxy(log, peer, field) }, outer)
}

// ByCookie limits by the value of a cookie, as handlers read it. If several have the name, the first counts. A JSON Web
// Token is one key, as with ByHeader.
func ByCookie(name string) KeyFunc {
	if !field.ValidName(name) {
		return badKey("ByCookie", name, `must be the name of a cookie: letters, digits, "-" and "_", such as "session"`)
	}
	return named("cookie", name, func(x Request) (string, error) { return normalizeToken(x.Cookie(name)), nil })
}

// ByQuery limits by the first value of a query parameter. A JSON Web Token is one key, as with ByHeader.
func ByQuery(name string) KeyFunc {
	if name == "" {
		return badKey("ByQuery", name, `must be the name of a query parameter, such as "q"`)
	}
	return named("query", name, func(x Request) (string, error) { return normalizeToken(x.Query(name)), nil })
}

// ByParam limits by a parameter of the route, such as id in /items/{id}, percent-decoded.
func ByParam(name string) KeyFunc {
	if name == "" {
		return badKey("ByParam", name, `must be the name of a parameter of the route, such as "id"`)
	}
	return named("param", name, func(x Request) (string, error) { return x.Param(name), nil })
}

// ByMethod limits by the request's method: one of RFC 9110, section 9.3, or PATCH. All other methods share one key,
// because clients can make them up.
func ByMethod() KeyFunc {
	return func(x Request) (string, error) {
		switch method := x.Method(); method {
		case http.MethodGet, http.MethodHead, http.MethodPost, http.MethodPut, http.MethodDelete,
			http.MethodConnect, http.MethodOptions, http.MethodTrace, http.MethodPatch:
			return core.JoinKey("method", method), nil
		}
		return core.JoinKey("method", "other"), nil // no method of the list has this name
	}
}

// ByPath limits by the path as requested, percent-decoded. Clients choose the path, and every path that they make up
// gets a full bucket. Join it with a key of the client, or use ByRoute.
func ByPath() KeyFunc {
	return func(x Request) (string, error) {
		return core.JoinKey("path", cmp.Or(x.Path(), "/")), nil // a URL without a path means the root
	}
}

// Global limits all requests together. name is the name of their bucket.
func Global(name string) KeyFunc {
	if name == "" {
		return badKey("Global", name, `must be a name for the bucket, such as "all"`)
	}
	key := core.JoinKey("global", name)
	return func(Request) (string, error) { return key, nil }
}

// named makes the extractor of one field. An empty field is missing.
func named(kind, name string, value func(Request) (string, error)) KeyFunc {
	return func(x Request) (string, error) {
		v, err := value(x)
		switch {
		case err != nil:
			return "", err
		case v == "":
			return "", fmt.Errorf("%w: no %s %q", core.ErrNoKey, kind, name)
		}
		return core.JoinKey(kind, name, v), nil
	}
}
