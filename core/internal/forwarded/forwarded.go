package forwarded

import (
	"net/netip"
	"strings"
)

// List is a header field in which each proxy appends who sent it the
// request. Last splits off the last element of a line: it returns its address,
// what is to the left of it, and whether there is anything.
type List struct {
	Field string
	Last  func(line string) (addr netip.Addr, ok bool, left string, more bool)
}

// The fields that proxies write.
var (
	XForwardedFor = List{"X-Forwarded-For", lastXForwardedFor}
	RFC7239       = List{"Forwarded", lastForwarded}
)

func lastXForwardedFor(line string) (addr netip.Addr, ok bool, left string, more bool) {
	element := line
	if comma := strings.LastIndexByte(line, ','); comma >= 0 {
		left, element, more = line[:comma], line[comma+1:], true
	}
	addr, _, ok = ParseAddr(element)
	return addr, ok, left, more
}

// lastForwarded is for RFC 7239, section 4. Quotes are paired from the right,
// where the trusted proxy wrote: otherwise a client that begins a quoted string
// could hide what the proxy appends.
func lastForwarded(line string) (addr netip.Addr, ok bool, left string, more bool) {
	element, quoted := line, false
	for i := len(line) - 1; i >= 0; i-- {
		switch line[i] {
		case '"':
			before := strings.TrimRight(line[:i], `\`)
			if (i-len(before))%2 == 0 {
				quoted = !quoted
			}
			i = len(before)
		case ',':
			if !quoted {
				left, element, more = line[:i], line[i+1:], true
				i = 0
			}
		}
	}
	if node, found := forwardedNode(element); found {
		addr, ok = parseNode(node)
	}
	return addr, ok, left, more
}

// forwardedNode returns the value of for in an element: pairs of a name and a
// value, with semicolons between. found is false if the element is not valid,
// or has no for.
func forwardedNode(element string) (node string, found bool) {
	for rest := element; ; {
		rest = strings.TrimLeft(rest, " \t")
		if rest != "" && rest[0] != ';' {
			end := strings.IndexAny(rest, "=\"\\;, \t")
			if end <= 0 || rest[end] != '=' {
				return "", false
			}
			name := rest[:end]
			var value string
			var ok bool
			if value, rest, ok = forwardedValue(rest[end+1:]); !ok {
				return "", false
			}
			if strings.EqualFold(name, "for") {
				if found {
					return "", false // a name occurs once
				}
				node, found = value, true
			}
			rest = strings.TrimLeft(rest, " \t")
		}
		if rest == "" {
			return node, found
		}
		if rest[0] != ';' {
			return "", false
		}
		rest = rest[1:]
	}
}

// forwardedValue splits the value off that s begins with: a token, or a quoted
// string, without its quotes and escapes. Proxies write addresses with colons
// without quotes too, so a token may hold anything that does not end it.
func forwardedValue(s string) (value, rest string, ok bool) {
	if s == "" || s[0] != '"' {
		end := strings.IndexAny(s, "\"\\;, \t")
		if end < 0 {
			end = len(s)
		}
		return s[:end], s[end:], end > 0
	}
	escaped := false
	for i := 1; i < len(s); i++ {
		switch s[i] {
		case '\\':
			escaped = true
			i++
		case '"':
			if value = s[1:i]; escaped {
				value = unescape(value)
			}
			return value, s[i+1:], true
		}
	}
	return "", "", false
}

func unescape(s string) string {
	var b strings.Builder
	for i := 0; i < len(s); i++ {
		if s[i] == '\\' {
			i++
		}
		b.WriteByte(s[i])
	}
	return b.String()
}

// parseNode parses a node of Forwarded (section 6): an address with or without
// a port. The port may be obfuscated, such as _x7. An obfuscated identifier and
// "unknown" are no address.
func parseNode(node string) (netip.Addr, bool) {
	if colon := strings.LastIndexByte(node, ':'); colon >= 0 && isObfuscated(node[colon+1:]) {
		node = node[:colon]
	}
	addr, _, ok := ParseAddr(node)
	return addr, ok
}

// isObfuscated reports whether s is an obfuscated identifier or port (section
// 6.3).
func isObfuscated(s string) bool {
	if len(s) < 2 || s[0] != '_' {
		return false
	}
	for _, c := range []byte(s[1:]) {
		if (c < 'a' || c > 'z') && (c < 'A' || c > 'Z') && (c < '0' || c > '9') && c != '.' && c != '_' && c != '-' {
			return false
		}
	}
	return true
}
