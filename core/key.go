package core

import (
	"errors"
	"fmt"
	"net/netip"
	"strings"

	"github.com/tokenbucket-go/ratelimit/core/internal/field"
	"github.com/tokenbucket-go/ratelimit/core/internal/forwarded"
	"github.com/tokenbucket-go/ratelimit/core/internal/printable"
)

// JoinKey joins parts into one key, such as "user:acme:ada" of "user", "acme"
// and "ada". Different parts never make the same key, whatever bytes they hold:
// JoinKey percent-encodes every ':', '%' and '|' in a part and joins the parts
// with ':'. Use it in your own key functions, with a first part that says what
// the key names, and is not the name of a header field that you limit by:
//
//	core.JoinKey("user", tenant, id)
//
// Join of an adapter takes such a key as it is, and puts '|' between keys:
// "route:/items/:id|user:acme:ada".
//
// A part of more than 128 bytes becomes "%sha256=" and its SHA-256, so clients
// can't make expensive keys. Limiters replace a whole key of more than 128
// bytes by "sha256:" and its SHA-256.
func JoinKey(parts ...string) string {
	n := len(parts)
	for _, p := range parts {
		n += printable.PartLen(p, specialInPart)
	}
	var b strings.Builder
	b.Grow(n)
	for i, p := range parts {
		if i > 0 {
			b.WriteByte(':')
		}
		printable.WritePart(&b, p, specialInPart)
	}
	return b.String()
}

// specialInPart are the bytes that JoinKey encodes.
const specialInPart = ":%|"

// checkKey refuses the empty key: all clients without one would share a bucket.
func checkKey(key string) error {
	if key == "" {
		return fmt.Errorf("%w: it is empty", ErrNoKey)
	}
	return nil
}

// IPOption says how the adapters' ByIP, ClientIP and PerIP find a client's
// address. Without options it is the address of the connection's peer. Behind a
// proxy that peer is the proxy, so name the proxies with [TrustProxies].
//
// [TrustProxies], [TrustHeader] and [IPv6Prefix] make options. The fields are for
// package adapter: each option sets some.
type IPOption struct {
	Proxies    []netip.Prefix // peers that are trusted
	UnixSocket bool           // peers on Unix sockets are trusted
	Header     string         // the field with the client's address; "": X-Forwarded-For alone
	IPv6Prefix int            // how many bits of an IPv6 address identify a client; 0: 64
	Err        error          // mistakes in the arguments, which New of the adapter reports
}

// TrustProxies names the addresses or CIDR ranges of the proxies in front of
// the service, such as "10.0.0.0/8" or "192.0.2.7". If the peer is one of them,
// ByIP reads X-Forwarded-For from the right and skips trusted proxies, up to 32
// addresses. The first address that is not a trusted proxy's is the client's.
// ByIP ignores everything to the left of it, because a client can forge that.
//
// "unix:" is a proxy that connects through a Unix socket. Without it a request
// through a socket has no address, and the error is [ErrNoKey]. Everybody who
// can write to the socket can choose an address.
func TrustProxies(prefixes ...string) IPOption {
	var o IPOption
	for _, s := range prefixes {
		p, err := forwarded.ParsePrefix(s)
		switch {
		case s == "unix:":
			o.UnixSocket = true
		case err != nil:
			o.Err = errors.Join(o.Err, configError("TrustProxies", s,
				`must be an IP address or a CIDR range, such as "192.0.2.7" or "10.0.0.0/8", or "unix:" for a Unix socket`))
		default:
			o.Proxies = append(o.Proxies, p)
		}
	}
	return o
}

// TrustHeader names a header field in which a trusted proxy sends the client's
// address, such as "CF-Connecting-IP". ByIP reads it only if the peer is
// trusted. If the field is missing, repeated or not an address, ByIP reads
// X-Forwarded-For instead.
//
// TrustHeader("Forwarded") has ByIP read that field (RFC 7239) in place of
// X-Forwarded-For and in the same way: from the right. Use it if all your
// proxies write Forwarded: one that does not passes on what clients send. An
// element without an address, such as for=_hidden, ends the search: the address
// is that of the proxy that sent it.
func TrustHeader(name string) IPOption {
	if !field.ValidName(name) {
		return IPOption{Err: configError("TrustHeader", name, `must be the name of a header field, such as "CF-Connecting-IP"`)}
	}
	return IPOption{Header: name}
}

// IPv6Prefix sets how many leading bits of an IPv6 address identify one client:
// from 1 to 128, by default 64. A subscriber gets at least a /64 and can use
// any address in it. If your clients' providers assign larger networks, use 56
// or 48.
func IPv6Prefix(bits int) IPOption {
	if bits < 1 || bits > 128 {
		return IPOption{Err: configError("IPv6Prefix", bits, "must be from 1 to 128 bits")}
	}
	return IPOption{IPv6Prefix: bits}
}
