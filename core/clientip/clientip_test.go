package clientip_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/tokenbucket-go/ratelimit/core"
	"github.com/tokenbucket-go/ratelimit/core/clientip"
)

// A client can write anything into X-Forwarded-For, to choose its key or to
// make the request expensive.
func TestForwardedForCannotBeForged(t *testing.T) {
	c := core.Must(clientip.New(core.TrustProxies("10.0.0.0/8", "2001:db8:ffff::/48")))
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
		key, err := c.Key("10.1.1.1:1234", forwardedFor(x.fields...))
		require.NoError(t, err, x.name)
		assert.Equal(t, x.want, key, x.name)
	}
	key, err := c.Key("[192.0.2.1]:1234", forwardedFor())
	require.NoError(t, err)
	assert.Equal(t, "192.0.2.1", key)
	for _, peer := range []string{"", "@", "/run/app.sock", "localhost:80", "[::1", "1.2.3.4.5:6", strings.Repeat("a", 64<<10)} {
		_, err := c.Key(peer, forwardedFor())
		assert.ErrorIs(t, err, core.ErrNoKey, "a peer without an IP address has no key: %.20q", peer)
	}
}

// The constructor reports every mistake in the options, before the first
// request.
func TestNewReportsEveryMistake(t *testing.T) {
	_, err := clientip.New(core.TrustProxies("10.0.0.0/33", "10.0.0.0/8", "proxy"), core.TrustHeader("CF IP"), core.IPv6Prefix(129))
	require.Error(t, err)
	for _, want := range []string{`TrustProxies: "10.0.0.0/33" must be an IP address or a CIDR range`, `TrustProxies: "proxy" must be`,
		`TrustHeader: "CF IP" must be the name of a header field`, `IPv6Prefix: 129 must be from 1 to 128 bits`} {
		assert.ErrorContains(t, err, want)
	}
	var mistake *core.ConfigError
	require.ErrorAs(t, err, &mistake)
	assert.Equal(t, "TrustProxies", mistake.Field)
	for _, name := range []string{"", "CF IP", "CF-IP:", "CF-\u212aIP", "CF\nIP"} {
		_, err := clientip.New(core.TrustProxies("10.0.0.0/8"), core.TrustHeader(name))
		assert.ErrorContains(t, err, "TrustHeader", "%q is the name of no field", name)
	}
}
