package adapter_test

import (
	"net"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/tokenbucket-go/ratelimit/core"
	"github.com/tokenbucket-go/ratelimit/core/adapter"
	"github.com/tokenbucket-go/ratelimit/core/middleware"
)

// sent is a request of a peer, with header fields and nothing else.
type sent struct {
	adapter.Request // for the methods that nobody calls; nil

	peer   string
	header func(name string) []string
}

func from(peer string, header func(name string) []string) adapter.Request {
	return sent{peer: peer, header: header}
}

func (s sent) Path() string                { return "/sent" }
func (s sent) RemoteAddr() string          { return s.peer }
func (s sent) LocalAddr() net.Addr         { return nil }
func (s sent) Header(name string) []string { return s.header(name) }

// A client can write anything into X-Forwarded-For, to choose its key or to
// make the request expensive.
func TestForwardedForCannotBeForged(t *testing.T) {
	c := adapter.ClientIP(core.TrustProxies("10.0.0.0/8", "2001:db8:ffff::/48"))
	thousands := strings.TrimSuffix(strings.Repeat("10.0.0.1, ", 6500), ", ") // 64 KB of trusted hops
	for _, x := range []struct {
		name   string
		fields []string
		want   string
	}{
		{"31 trusted hops behind a client", []string{"203.0.113.5" + strings.Repeat(", 10.0.0.1", 31)}, "203.0.113.5"},
		{"more trusted hops than any chain of proxies has", []string{"203.0.113.5" + strings.Repeat(", 10.0.0.1", 32)}, "10.0.0.1"},
		{"thousands of trusted hops behind a client", []string{"203.0.113.5, " + thousands}, "10.0.0.1"},
		{"as many lines", append([]string{"203.0.113.5"}, strings.Split(thousands, ", ")...), "10.0.0.1"},
		{"an address in 64 KB of blanks", []string{strings.Repeat(" ", 64<<10) + "203.0.113.5"}, "203.0.113.5"},
		{"an address with a zone of 64 KB", []string{"fe80::1%" + strings.Repeat("z", 64<<10)}, "10.1.1.1"},
		{"thousands of trusted hops and no client behind them", []string{thousands}, "10.0.0.1"},
		{"64 KB without a comma", []string{strings.Repeat("9", 64<<10)}, "10.1.1.1"},
		{"64 KB of commas", []string{strings.Repeat(",", 64<<10)}, "10.1.1.1"},
		{"garbage at the left is not read", []string{"<script>, 203.0.113.5"}, "203.0.113.5"},
		{"garbage at the right ends the walk", []string{"203.0.113.5, unknown"}, "10.1.1.1"},
		{"garbage behind a trusted hop ends it there", []string{"203.0.113.5, _hidden, 10.2.2.2"}, "10.2.2.2"},
		{"a port", []string{"203.0.113.5:8080"}, "203.0.113.5"},
		{"a port out of range", []string{"203.0.113.5:99999"}, "10.1.1.1"},
		{"IPv6 with brackets and a port", []string{"[2001:db8:1:2:3::4]:443"}, "2001:db8:1:2::/64"},
		{"IPv6 in brackets", []string{"[2001:db8:1:2:3::4]"}, "2001:db8:1:2::/64"},
		{"IPv4 in brackets and a port", []string{"[203.0.113.5]:1234"}, "203.0.113.5"},
		{"IPv4 in brackets does not hide a trusted hop", []string{"203.0.113.5, [10.3.3.3]:80"}, "203.0.113.5"},
		{"brackets with something else behind them", []string{"[203.0.113.5]x"}, "10.1.1.1"},
		{"empty brackets", []string{"[]:80"}, "10.1.1.1"},
		{"IPv6 with a zone", []string{"2001:db8:1:2::4%eth0"}, "2001:db8:1:2::/64"},
		{"a zone does not hide a trusted hop", []string{"203.0.113.5, 2001:db8:ffff::1%eth0"}, "203.0.113.5"},
		{"IPv4 mapped into IPv6", []string{"::ffff:203.0.113.5"}, "203.0.113.5"},
		{"a mapped address does not hide a trusted hop", []string{"203.0.113.5, ::ffff:10.3.3.3"}, "203.0.113.5"},
		{"leading zeros are no address", []string{"010.0.0.1"}, "10.1.1.1"},
		{"line breaks and NUL are no address", []string{"203.0.113.5\r\nX: y", "203.0.113.6\x00"}, "10.1.1.1"},
		{"several fields are one list", []string{"198.51.100.1, 203.0.113.5", "10.4.4.4", "10.5.5.5"}, "203.0.113.5"},
		{"an empty field", []string{"203.0.113.5", ""}, "10.1.1.1"},
	} {
		key, err := c(from("10.1.1.1:1234", forwardedFor(x.fields...)))
		require.NoError(t, err, x.name)
		assert.Equal(t, x.want, key, x.name)
	}
	key, err := c(from("[192.0.2.1]:1234", forwardedFor()))
	require.NoError(t, err)
	assert.Equal(t, "192.0.2.1", key)
	for _, peer := range []string{"", "@", "/run/app.sock", "localhost:80", "[::1", "1.2.3.4.5:6", strings.Repeat("a", 64<<10)} {
		_, err := c(from(peer, forwardedFor()))
		assert.ErrorIs(t, err, core.ErrNoKey, "a peer without an IP address has no key: %.20q", peer)
	}
}

// Every mistake in the options is reported before the first request.
func TestByIPReportsEveryMistake(t *testing.T) {
	mistakes := func(options ...core.IPOption) error {
		return middleware.ArgumentError[adapter.Request, string](adapter.ByIP(options...))
	}
	var mistake *core.ConfigError
	require.ErrorAs(t, mistakes(core.TrustProxies("10.0.0.0/33"), core.IPv6Prefix(129)), &mistake)
	assert.Equal(t, "TrustProxies", mistake.Field, "the suite has what the mistakes say")
	for _, name := range []string{"", "CF IP", "CF-IP:", "CF-\u212aIP", "CF\nIP"} {
		err := mistakes(core.TrustProxies("10.0.0.0/8"), core.TrustHeader(name))
		assert.ErrorContains(t, err, "TrustHeader", "%q is the name of no field", name)
	}
}

// fields returns the header whose fields and values alternate.
func fields(pairs ...string) func(string) []string {
	return func(name string) (values []string) {
		for i := 0; i < len(pairs); i += 2 {
			if strings.EqualFold(pairs[i], name) {
				values = append(values, pairs[i+1])
			}
		}
		return values
	}
}

// Middleware that rewrites RemoteAddr takes what the client sent. The address
// of a connection has a port, and no proxy sends its own address with its port.
func TestARewrittenAddressIsRefused(t *testing.T) {
	for _, c := range []func(adapter.Request) (string, error){adapter.ClientIP(), adapter.ClientIP(core.TrustProxies("203.0.113.0/24"))} {
		for _, x := range []struct {
			peer   string
			header func(string) []string
		}{
			{"203.0.113.9", fields()},
			{"2001:db8::9", fields()},
			{"[2001:db8::9]", fields()},
			{" 203.0.113.9", fields()},
			{"203.0.113.9:80", fields("X-Real-IP", "203.0.113.9:80")},
			{"203.0.113.9:80", fields("X-Forwarded-For", "203.0.113.9:80")},
			{"203.0.113.9:80", fields("X-Forwarded-For", "203.0.113.9:80, 10.0.0.1")},
			{"203.0.113.9:80", fields("X-Forwarded-For", "10.0.0.1", "X-Forwarded-For", "203.0.113.9:80")},
			{"203.0.113.9:80", fields("True-Client-IP", "203.0.113.9:80")},
			{"[2001:db8::9]:80", fields("Forwarded", `for="[2001:db8::9]:80";proto=http`)},
		} {
			_, err := c(from(x.peer, x.header))
			assert.ErrorContains(t, err, "rewritten the peer's address", x.peer)
			assert.ErrorIs(t, err, core.ErrBadKey, "FirstOf must not go on to another key: %q", x.peer)
			assert.ErrorContains(t, err, "core.TrustProxies", "the error says what to use")
		}
	}
	_, err := adapter.ClientIP()(from("192.0.2.1:80", fields("X-Forwarded-For", "192.0.2.1", "X-Real-IP", "192.0.2.1")))
	require.NoError(t, err, "a client that sends its own address, without the port of its connection, was not rewritten")
	_, err = adapter.ClientIP()(from(strings.Repeat("9", 64<<10), fields()))
	assert.Less(t, len(err.Error()), 500, "a message is short, whatever a client sends")
}

// A proxy on a Unix socket has no address. It is trusted if the app says so,
// and nothing else without an address is.
func TestAProxyOnAUnixSocket(t *testing.T) {
	plain, trusting := adapter.ClientIP(), adapter.ClientIP(core.TrustProxies("unix:"), core.TrustProxies("10.0.0.0/8"))
	for _, socket := range []string{"", "@", "@nginx", "/run/nginx.sock"} {
		_, err := plain(from(socket, forwardedFor("203.0.113.5")))
		assert.ErrorIs(t, err, core.ErrNoKey, "a socket is not trusted by default: %q", socket)
		assert.ErrorContains(t, err, `core.TrustProxies("unix:")`)
		key, err := trusting(from(socket, forwardedFor("1.1.1.1, 203.0.113.5, 10.1.2.3")))
		require.NoError(t, err, "%q", socket)
		assert.Equal(t, "203.0.113.5", key, "the walk through X-Forwarded-For is that of any trusted proxy: %q", socket)
		_, err = trusting(from(socket, forwardedFor()))
		assert.ErrorIs(t, err, core.ErrNoKey, "a proxy that sends no address: %q", socket)
	}
	for _, other := range []string{"garbage", "localhost:80", "1.2.3.4.5:6", "300.1.1.1:80"} {
		_, err := trusting(from(other, forwardedFor("203.0.113.5")))
		assert.ErrorIs(t, err, core.ErrNoKey, "what is neither an address nor a socket is not trusted: %q", other)
	}
	key, err := trusting(from("203.0.113.6:1", forwardedFor("203.0.113.5")))
	require.NoError(t, err)
	assert.Equal(t, "203.0.113.6", key, "a client beside the socket is not trusted")
}
