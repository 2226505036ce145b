package clientip_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/tokenbucket-go/ratelimit/core"
	"github.com/tokenbucket-go/ratelimit/core/clientip"
)

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
	for _, c := range []*clientip.Finder{core.Must(clientip.New()), core.Must(clientip.New(core.TrustProxies("203.0.113.0/24")))} {
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
			_, err := c.Key(x.peer, x.header)
			assert.ErrorIs(t, err, core.ErrRewrittenAddr, "a rewritten address has no key: %q", x.peer)
			assert.ErrorIs(t, err, core.ErrBadKey, "FirstOf must not go on to another key: %q", x.peer)
			assert.ErrorContains(t, err, "core.TrustProxies", "the error says what to use")
		}
	}
	danger := core.Must(clientip.New(core.DangerouslyTrustRemoteAddr()))
	for _, peer := range []string{"203.0.113.9", "203.0.113.9:80"} {
		key, err := danger.Key(peer, fields("X-Real-IP", peer))
		require.NoError(t, err, "the app says that it trusts RemoteAddr: %q", peer)
		assert.Equal(t, "203.0.113.9", key)
	}
	_, err := core.Must(clientip.New()).Key("192.0.2.1:80", fields("X-Forwarded-For", "192.0.2.1", "X-Real-IP", "192.0.2.1"))
	require.NoError(t, err, "a client that sends its own address, without the port of its connection, was not rewritten")
	_, err = core.Must(clientip.New()).Key(strings.Repeat("9", 64<<10), fields())
	assert.Less(t, len(err.Error()), 500, "a message is short, whatever a client sends")
}

// A proxy on a Unix socket has no address. It is trusted if the app says so,
// and nothing else without an address is.
func TestAProxyOnAUnixSocket(t *testing.T) {
	plain, trusting := core.Must(clientip.New()), core.Must(clientip.New(core.TrustProxies("unix:"), core.TrustProxies("10.0.0.0/8")))
	for _, socket := range []string{"", "@", "@nginx", "/run/nginx.sock"} {
		_, err := plain.Key(socket, forwardedFor("203.0.113.5"))
		assert.ErrorIs(t, err, core.ErrNoKey, "a socket is not trusted by default: %q", socket)
		assert.ErrorContains(t, err, `core.TrustProxies("unix:")`)
		key, err := trusting.Key(socket, forwardedFor("1.1.1.1, 203.0.113.5, 10.1.2.3"))
		require.NoError(t, err, "%q", socket)
		assert.Equal(t, "203.0.113.5", key, "the walk through X-Forwarded-For is that of any trusted proxy: %q", socket)
		_, err = trusting.Key(socket, forwardedFor())
		assert.ErrorIs(t, err, core.ErrNoKey, "a proxy that sends no address: %q", socket)
	}
	for _, other := range []string{"garbage", "localhost:80", "1.2.3.4.5:6", "300.1.1.1:80"} {
		_, err := trusting.Key(other, forwardedFor("203.0.113.5"))
		assert.ErrorIs(t, err, core.ErrNoKey, "what is neither an address nor a socket is not trusted: %q", other)
	}
	key, err := trusting.Key("203.0.113.6:1", forwardedFor("203.0.113.5"))
	require.NoError(t, err)
	assert.Equal(t, "203.0.113.6", key, "a client beside the socket is not trusted")
}
