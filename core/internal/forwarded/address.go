// Package forwarded parses addresses, and the header fields in which proxies
// say who sent them a request. It is a package because core reads the
// addresses in options, and core/adapter those in requests.
package forwarded

import (
	"net/netip"
	"strings"
)

// maxAddr is longer than any address with port, brackets and zone.
const maxAddr = 128

// ParseAddr parses an address with or without port, brackets, zone and
// surrounding blanks, and reports whether there is a port. It returns an IPv4
// address for one mapped into IPv6.
func ParseAddr(s string) (addr netip.Addr, port, ok bool) {
	for s != "" && isBlank(s[0]) { // strings.Trim is slow with two characters
		s = s[1:]
	}
	for s != "" && isBlank(s[len(s)-1]) {
		s = s[:len(s)-1]
	}
	if s == "" || len(s) > maxAddr {
		return netip.Addr{}, false, false
	}
	// netip's parsers allocate an error for a wrong guess, so look first:
	// brackets or a single colon mean a port.
	switch colon := strings.LastIndexByte(s, ':'); {
	case s[0] == '[': // IPv6 as in RFC 3986; some proxies write IPv4 so too
		end := strings.IndexByte(s, ']')
		if end < 0 || end+1 < len(s) && (s[end+1] != ':' || !isPort(s[end+2:])) {
			return netip.Addr{}, false, false
		}
		port = end+1 < len(s)
		s = s[1:end]
	case colon >= 0 && colon == strings.IndexByte(s, ':'):
		if !isPort(s[colon+1:]) {
			return netip.Addr{}, false, false
		}
		port = true
		s = s[:colon]
	}
	a, err := netip.ParseAddr(s)
	return Plain(a), port, err == nil
}

// Plain returns a without a zone, and an IPv4 address for one mapped into IPv6.
func Plain(a netip.Addr) netip.Addr { return a.Unmap().WithZone("") }

func isBlank(c byte) bool { return c == ' ' || c == '\t' }

func isPort(s string) bool {
	n := 0
	for i := range len(s) {
		if n = 10*n + int(s[i]-'0'); s[i] < '0' || s[i] > '9' || n > 65535 {
			return false
		}
	}
	return s != ""
}

// ParsePrefix parses an address or a CIDR range. An IPv4 range mapped into IPv6
// is that of IPv4.
func ParsePrefix(s string) (netip.Prefix, error) {
	if a, err := netip.ParseAddr(s); err == nil {
		a = Plain(a)
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
