package adapter_test

import (
	"errors"
	"net/netip"
	"strings"
	"testing"

	"github.com/tokenbucket-go/ratelimit/core"
	"github.com/tokenbucket-go/ratelimit/core/adapter"
)

var trusted = []string{"10.0.0.0/8", "192.0.2.7", "2001:db8:1::/48", "::1"}

// hop parses one element of X-Forwarded-For: an address with or without a port
// or brackets.
func hop(s string) (netip.Addr, bool) {
	s = strings.Trim(s, " \t")
	if len(s) > 128 {
		return netip.Addr{}, false
	}
	candidates := []string{s}
	if inner, ok := strings.CutPrefix(s, "["); ok {
		if host, port, ok := strings.Cut(inner, "]"); ok { // some proxies bracket IPv4 too
			if candidates = append(candidates, host); port != "" {
				candidates = []string{s}
				if a, err := netip.ParseAddr(host); err == nil && a.Is4() {
					s = host + port
				}
			}
		}
	}
	for _, c := range candidates {
		if a, err := netip.ParseAddr(c); err == nil {
			return a.WithZone("").Unmap().WithZone(""), true
		}
	}
	if p, err := netip.ParseAddrPort(s); err == nil {
		return p.Addr().WithZone("").Unmap(), true
	}
	return netip.Addr{}, false
}

func trusts(a netip.Addr) bool {
	for _, s := range trusted {
		if p, err := netip.ParsePrefix(s); err == nil && p.Contains(a) || s == a.String() {
			return true
		}
	}
	return false
}

// naiveClient finds the client by joining all lines into one list. ended
// reports whether an address that is not trusted, or an invalid one, ended the
// search before the left end of the list.
func naiveClient(peer string, lines []string) (key string, ended bool) {
	last, ok := hop(peer)
	if !ok {
		return "", true
	}
	all := strings.Split(strings.Join(lines, ","), ",")
	if len(lines) == 0 {
		all = nil
	}
	for i := len(all); trusts(last); i-- {
		if len(all)-i == 32 {
			return network(last), true
		}
		if i == 0 {
			return network(last), false
		}
		next, ok := hop(all[i-1])
		if !ok {
			return network(last), true
		}
		last = next
	}
	return network(last), true
}

func network(a netip.Addr) string {
	if a.Is4() {
		return a.String()
	}
	return netip.PrefixFrom(a, 64).Masked().String()
}

// FuzzForwardedFor compares ClientIP with naiveClient. A newline in header
// separates the lines of the field.
func FuzzForwardedFor(f *testing.F) {
	for _, peer := range []string{"10.0.0.1:1234", "192.0.2.7", "[2001:db8:1::5]:80", "[::1]:9", "[::ffff:10.0.0.1]:80", "203.0.113.9:1",
		"", "@", "10.0.0.1:", "[::1%eth0]:80"} {
		for _, header := range []string{
			"", ",", " ", "1.2.3.4", "6.6.6.6, 1.2.3.4", "6.6.6.6, 1.2.3.4, 10.1.1.1", "6.6.6.6\n1.2.3.4\n10.1.1.1, 192.0.2.7",
			"unknown, 10.1.1.1", "1.2.3.4, _hidden, 10.1.1.1", "1.2.3.4,", "1.2.3.4:80, [2001:db8::1]:443", "[2001:db8::1]", "[1.2.3.4]",
			"::ffff:1.2.3.4", "::ffff:10.0.0.1, ::ffff:0a00:0001", "fe80::1%eth0", "::ffff:1.2.3.4%x", "1.2.3.4\n", "\n1.2.3.4", "10.0.0.1, 10.0.0.2",
			"01.2.3.4", "1.2.3.4.5", "256.1.1.1", "1.2.3.4:99999", "[::1", "::1]", "[]", "[]:80", "\x00", "1.2.3.4\t", "\v1.2.3.4", "１.2.3.4",
			strings.Repeat("10.0.0.1,", 500) + "6.6.6.6",
		} {
			f.Add(peer, header)
		}
	}
	fuzzClient(f, adapter.ClientIP(core.TrustProxies(trusted...)), "X-Forwarded-For", naiveClient, "198.51.100.66, 10.0.0.1")
}

// fuzzClient compares ip with naive, for requests with lines of field. Once the
// search has ended, more lines to the left, such as forged, must change nothing.
func fuzzClient(
	f *testing.F, ip func(adapter.Request) (string, error), field string,
	naive func(peer string, lines []string) (key string, ended bool), forged ...string,
) {
	f.Fuzz(func(t *testing.T, peer, header string) {
		lines, key := keyBy(ip, peer, field, header)
		got := key(lines)
		if got == refused {
			return
		}
		want, ended := naive(peer, lines)
		if got != want {
			t.Errorf("peer %q, %s %q: the client is %q, want %q, the first hop from the right that is not trusted", peer, field, lines, got, want)
		}
		for _, line := range forged {
			if more := append([]string{line}, lines...); ended && key(more) != got {
				t.Errorf("peer %q: %s %q names the client %q, but %q, with more to the left of it, names %q: a client can forge its address",
					peer, field, lines, got, more, key(more))
			}
		}
	})
}

const refused = "refused"

// keyBy returns the lines of a header, and a function that returns the key of
// a request with lines in the field of that name; "": it has none; refused: its
// peer was rewritten.
func keyBy(ip func(adapter.Request) (string, error), peer, field, header string) (lines []string, key func(lines []string) string) {
	if header != "" {
		lines = strings.Split(header, "\n")
	}
	return lines, func(lines []string) string {
		k, err := ip(from(peer, func(name string) []string {
			if name == field {
				return lines
			}
			return nil
		}))
		switch {
		case errors.Is(err, core.ErrBadKey):
			return refused
		case err != nil:
			return ""
		}
		return k
	}
}
