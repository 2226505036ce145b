package adapter_test

import (
	"net/netip"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/tokenbucket-go/ratelimit/core"
	"github.com/tokenbucket-go/ratelimit/core/adapter"
)

// A client writes what it likes to the left of what the trusted proxy appends
// to Forwarded.
func TestForwardedCannotBeForged(t *testing.T) {
	c := adapter.ClientIP(core.TrustProxies("10.0.0.0/8", "2001:db8:ffff::/48"), core.TrustHeader("Forwarded"))
	const peer, unknown = "10.1.1.1:1234", "10.1.1.1"
	for _, x := range []struct {
		name  string
		lines []string
		want  string
	}{
		{"the examples of RFC 7239: for alone", []string{"for=192.0.2.60"}, "192.0.2.60"},
		{"with other pairs", []string{"for=192.0.2.60;proto=http;by=203.0.113.43"}, "192.0.2.60"},
		{"names in capitals, for in the middle", []string{"By=203.0.113.43;FOR=192.0.2.60;Proto=http"}, "192.0.2.60"},
		{"IPv6, quoted, with a port", []string{`For="[2001:db8:cafe::17]:4711"`}, "2001:db8:cafe::/64"},
		{"IPv6, quoted", []string{`for="[2001:db8:cafe::17]"`}, "2001:db8:cafe::/64"},
		{"IPv4, quoted, with a port", []string{`for="192.0.2.43:47011"`}, "192.0.2.43"},
		{"an obfuscated port", []string{`for="192.0.2.43:_x7"`}, "192.0.2.43"},
		{"the last of several", []string{"for=198.51.100.17, for=192.0.2.43"}, "192.0.2.43"},
		{"through another trusted proxy", []string{"for=198.51.100.1, for=192.0.2.43, for=10.2.2.2"}, "192.0.2.43"},
		{"an IPv6 proxy does not hide the client", []string{`for=192.0.2.43, for="[2001:db8:ffff::1]:80"`}, "192.0.2.43"},
		{"several lines are one list", []string{"for=198.51.100.1, for=192.0.2.43", "for=10.2.2.2"}, "192.0.2.43"},
		{"an obfuscated client", []string{"for=192.0.2.1, for=_hidden"}, unknown},
		{"an obfuscated client, quoted", []string{`for="_SEVKISEK"`}, unknown},
		{"an unknown client", []string{"for=192.0.2.1, for=unknown"}, unknown},
		{"an obfuscated client behind another proxy", []string{"for=_hidden, for=10.2.2.2"}, "10.2.2.2"},
		{"no for", []string{"for=192.0.2.1, by=10.1.1.1;proto=https"}, unknown},
		{"two for in one element", []string{"for=192.0.2.1;for=192.0.2.2"}, unknown},
		{"an empty element at the right", []string{"for=192.0.2.1,"}, unknown},
		{"a quote that the client left open does not hide what the proxy appends", []string{`for="1.1.1.1, for=192.0.2.43`}, "192.0.2.43"},
		{"nor in front of a quoted address", []string{`for="1.1.1.1, for="192.0.2.43:80"`}, "192.0.2.43"},
		{"nor with a backslash at its end", []string{`for="1.1.1.1\, for="192.0.2.43:80"`}, "192.0.2.43"},
		{"nor in another line", []string{`for="1.1.1.1`, "for=192.0.2.43"}, "192.0.2.43"},
		{"nor does a quoted comma split an address in two", []string{`for=192.0.2.43, for="10.2.2.2";x="for=1.1.1.1,for=1.1.1.2"`}, "192.0.2.43"},
		{"escapes are removed", []string{`for="192.0.2\.43"`}, "192.0.2.43"},
		{"an escaped quote ends no string", []string{`for=192.0.2.43;x="a\", for=1.1.1.1"`}, "192.0.2.43"},
		{"blanks around pairs", []string{"for=198.51.100.1 , for=192.0.2.43 ; proto=http \t"}, "192.0.2.43"},
		{"an empty value", []string{"for="}, unknown},
		{"an empty quoted value", []string{`for=""`}, unknown},
		{"a value without a name", []string{"192.0.2.43"}, unknown},
		{"something behind a quoted value", []string{`for="192.0.2.43"x`}, unknown},
		{"X-Forwarded-For is not read", nil, unknown},
		{"thousands of commas", []string{strings.Repeat(",", 64<<10)}, unknown},
		{"thousands of quotes and backslashes", []string{strings.Repeat(`\"`, 32<<10)}, unknown},
		{"more trusted hops than any chain has", []string{"for=192.0.2.43" + strings.Repeat(", for=10.0.0.1", 40)}, "10.0.0.1"},
	} {
		pairs := []string{"X-Forwarded-For", "198.51.100.99"}
		for _, line := range x.lines {
			pairs = append(pairs, "Forwarded", line)
		}
		key, err := c(from(peer, fields(pairs...)))
		require.NoError(t, err, x.name)
		assert.Equal(t, x.want, key, "%s: %q", x.name, x.lines)
	}
	without := adapter.ClientIP(core.TrustProxies("10.0.0.0/8"))
	key, err := without(from(peer, fields("Forwarded", "for=1.1.1.1", "X-Forwarded-For", "192.0.2.43")))
	require.NoError(t, err)
	assert.Equal(t, "192.0.2.43", key, "without TrustHeader(\"Forwarded\") a client's own Forwarded does not count")
}

const (
	tokenRE   = `[^"\\;, \t]+`
	pairRE    = `([^"\\;, \t=]+)=(` + tokenRE + `|"(?:[^"\\]|\\(?s:.))*")`
	elementRE = `^[ \t]*(?:` + pairRE + `)?[ \t]*(?:;[ \t]*(?:` + pairRE + `)?[ \t]*)*$`
)

var (
	elements = regexp.MustCompile(`(?s)` + elementRE)
	pairs    = regexp.MustCompile(`(?s)` + pairRE)
	escapes  = regexp.MustCompile(`(?s)\\(.)`)
	nodePort = regexp.MustCompile(`:_[A-Za-z0-9._-]+$`)
)

// lastNode finds the address of the last element of a line independently: the
// element is the shortest end of the line, after a comma, that the grammar of
// RFC 7239 allows.
func lastNode(line string) (addr netip.Addr, ok bool, left string, more bool) {
	for from := len(line); from >= 0; from-- {
		if from > 0 && line[from-1] != ',' || !elements.MatchString(line[from:]) {
			continue
		}
		var values []string
		for _, p := range pairs.FindAllStringSubmatch(line[from:], -1) {
			if strings.EqualFold(p[1], "for") {
				values = append(values, p[2])
			}
		}
		if len(values) != 1 {
			return addr, false, "", false
		}
		node := values[0]
		if node[0] == '"' {
			node = escapes.ReplaceAllString(node[1:len(node)-1], "$1")
		}
		addr, ok = hop(nodePort.ReplaceAllString(node, ""))
		return addr, ok, line[:max(0, from-1)], from > 0
	}
	return addr, false, "", false
}

// naiveForwarded finds the client, and reports whether an address that is not
// trusted, or something invalid, ended the search before the left end of the
// list.
func naiveForwarded(peer string, lines []string) (key string, ended bool) {
	last, ok := hop(peer)
	if !ok {
		return "", true
	}
	if !trusts(last) {
		return network(last), true
	}
	hops := 0
	for _, line := range slices.Backward(lines) {
		for more := true; more; {
			var next netip.Addr
			if next, ok, line, more = lastNode(line); !ok {
				return network(last), true
			}
			last = next
			if hops++; hops == 32 || !trusts(last) {
				return network(last), true
			}
		}
	}
	return network(last), false
}

// FuzzForwarded compares ClientIP with naiveForwarded. A newline in header
// separates the lines of the field.
func FuzzForwarded(f *testing.F) {
	for _, header := range []string{
		"", ",", " ", "for=1.2.3.4", "for=6.6.6.6, for=1.2.3.4", `For="[2001:db8::1]:443";proto=https;by=_x, for=10.1.1.1`, "for=6.6.6.6\nfor=10.1.1.1",
		"for=_hidden", "for=unknown, for=10.0.0.1", `for="1.2.3.4:_p"`, `for="a, for=1.2.3.4`, `for="a, for="1.2.3.4:80"`, `for="a\, for="1.2.3.4:80"`,
		`for="1.2.3.4";x="a,b"`, `x="\"";for=1.2.3.4`, "for=1.2.3.4;for=1.2.3.5", "for", "for=", "=1.2.3.4", ";;for=1.2.3.4;;", `for=""`, `for="1.2.3.4"x`,
		`for = 1.2.3.4`, `for="10.0.0.1\"`, `"`, `\"`, `\\"`, "for=::1, for=2001:db8:1::2", "for=[::1]:80", `for="192.0.2.7:99999"`, "for=1.2.3.4;a=b=c",
		strings.Repeat("for=10.0.0.1,", 40) + "for=10.0.0.1",
	} {
		f.Add("10.0.0.1:1234", header)
		f.Add("203.0.113.9:1", header)
	}
	fuzzClient(f, adapter.ClientIP(core.TrustProxies(trusted...), core.TrustHeader("Forwarded")), "Forwarded", naiveForwarded,
		"for=198.51.100.66, for=10.0.0.1", `for="198.51.100.66`, `x="\`)
}

// A proxy appends its element to the line that the client sent, whatever that
// is.
func FuzzForwardedAppended(f *testing.F) {
	for _, sent := range []string{"", "for=1.1.1.1", `for="1.1.1.1`, `for="\`, `"`, `\`, `x="a,b`, ",", `for="10.0.0.1", for="`} {
		f.Add(sent)
	}
	ip := adapter.ClientIP(core.TrustProxies(trusted...), core.TrustHeader("Forwarded"))
	f.Fuzz(func(t *testing.T, sent string) {
		for _, element := range []string{"for=203.0.113.5", `for="203.0.113.5:80"`, `proto=https;for="203.0.113.5:_x";by="[2001:db8:1::5]"`, `for=203.0.113.5;host="a,b\"c"`} {
			for _, line := range []string{sent + "," + element, sent + ", " + element} {
				key, err := ip(from("10.0.0.1:1234", fields("Forwarded", line)))
				if err != nil || key != "203.0.113.5" {
					t.Fatalf("%q: the client is %q (%v), want 203.0.113.5, which the trusted proxy appended", line, key, err)
				}
			}
		}
	})
}
