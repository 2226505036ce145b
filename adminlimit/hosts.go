package adminlimit

import (
	"net"
	"net/http"
	"net/netip"
	"slices"
	"strings"
)

// Hosts answers requests for other hosts with 421. names are those by which
// browsers reach the handler, without a port, such as "admin.example.com",
// "localhost" or "127.0.0.1"; case does not matter. Without Hosts any host is
// served.
//
// Use it where [Authorise] goes by address, such as for everything that comes
// from 127.0.0.1. A page that someone on call opens elsewhere can rebind the
// name of its own site to that address (DNS rebinding). To the browser the
// handler is then that site: the page reads the state, and if the handler is
// [Writable], its forms are not cross-site. But the browser still sends the
// site's name as Host.
func Hosts(names ...string) Option {
	names = slices.Clone(names)
	return func(c *config) {
		if len(names) == 0 {
			c.settings.ArgumentError("Hosts", "", "must have a name, such as localhost")
		}
		for _, name := range names {
			if host := hostOf(name); host == "" || name != strings.TrimSpace(name) || strings.ContainsAny(name, "/@*, ") || hasPort(name) {
				c.settings.ArgumentError("Hosts", name, "must be a name or an address without a port, such as admin.example.com")
			} else {
				c.hosts = append(c.hosts, host)
			}
		}
	}
}

// hasPort reports whether a host is followed by a port. An IPv6 address without
// brackets has none.
func hasPort(host string) bool {
	if _, err := netip.ParseAddr(host); err == nil {
		return false
	}
	return strings.Contains(host[strings.LastIndexByte(host, ']')+1:], ":")
}

// hostOf returns the name or address in a Host field, without its port, in the
// one form in which hosts are compared.
func hostOf(field string) string {
	host := field
	if hasPort(field) {
		var err error
		if host, _, err = net.SplitHostPort(field); err != nil {
			return ""
		}
	}
	host = strings.TrimSuffix(strings.TrimPrefix(host, "["), "]")
	if address, err := netip.ParseAddr(host); err == nil {
		return address.String()
	}
	return strings.ToLower(strings.TrimSuffix(host, "."))
}

// misdirected reports whether r is for another host than those of [Hosts].
func (c *config) misdirected(r *http.Request) bool {
	return len(c.hosts) > 0 && !slices.Contains(c.hosts, hostOf(r.Host))
}
