package adapter_test

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/tokenbucket-go/ratelimit/core"
	"github.com/tokenbucket-go/ratelimit/core/adapter"
	"github.com/tokenbucket-go/ratelimit/internal/logtest"
)

func forwardedFor(values ...string) func(string) []string {
	return func(name string) []string {
		if name == "X-Forwarded-For" {
			return values
		}
		return nil
	}
}

// A proxy whose address is outside the trusted ranges sends what ByIP would
// read from a trusted one. Without a warning all its clients share a bucket,
// and nobody knows.
func TestPeerOutsideTheTrustedRangesWarnsOnceWithPeerAndHeader(t *testing.T) {
	for _, x := range []struct {
		field   string
		options []core.IPOption
	}{
		{"X-Forwarded-For", []core.IPOption{core.TrustProxies("10.0.0.0/8")}},
		{"Forwarded", []core.IPOption{core.TrustProxies("10.0.0.0/8"), core.TrustHeader("Forwarded")}},
		{"CF-Connecting-IP", []core.IPOption{core.TrustProxies("10.0.0.0/8"), core.TrustHeader("CF-Connecting-IP")}},
		{"X-Forwarded-For", []core.IPOption{core.TrustProxies("unix:")}},
		{"X-Forwarded-For", nil},
		{"Forwarded", nil},
	} {
		l := logtest.Default(t)
		c := adapter.ClientIP(x.options...)
		send := func(peer string) {
			t.Helper()
			_, err := c(from(peer, func(name string) []string {
				if name == x.field {
					return []string{"for=203.0.113.5"}
				}
				return nil
			}))
			require.NoError(t, err)
		}
		if len(x.options) > 1 {
			send("10.0.0.1:1")
			assert.Zero(t, l.Count("RL701"), "%s from a trusted proxy", x.field)
		}
		for range 3 {
			send("192.0.2.1:1")
			send("192.0.2.2:1")
		}
		assert.Equal(t, 1, l.Count("RL701"), "%s from a peer that is not trusted is warned of, once", x.field)
		assert.Equal(t, 1, l.Count("name it with core.TrustProxies"), "the warning says what to do")
		assert.Equal(t, 1, l.Count("peer=192.0.2.1 header="+x.field+"\n"), "the warning has the peer and the header: %s", l.String())
	}
}

// A proxy that was not named may stand in front of one that was, as the address
// of Google's balancer does in front of Google's ranges: then all clients have
// its bucket.
func TestAnUnnamedProxyInFrontOfANamedOneWarnsOnce(t *testing.T) {
	for _, x := range []struct {
		options []core.IPOption
		sent    []string
		peer    string // in the warning; "": there is none
	}{
		{nil, []string{"X-Forwarded-For", "203.0.113.7,198.51.100.10"}, "198.51.100.10"},
		{nil, []string{"X-Forwarded-For", "203.0.113.7", "X-Forwarded-For", "198.51.100.10, 10.0.0.6"}, "198.51.100.10"},
		{nil, []string{"X-Forwarded-For", "203.0.113.7, 2001:db8::10"}, "2001:db8::/64"},
		{nil, []string{"X-Forwarded-For", "unknown, 198.51.100.10"}, "198.51.100.10"},
		{nil, []string{"X-Forwarded-For", "203.0.113.7, 10.0.0.6"}, ""},
		{nil, []string{"X-Forwarded-For", "203.0.113.7"}, ""},
		{nil, nil, ""},
		{[]core.IPOption{core.TrustHeader("Forwarded")}, []string{"Forwarded", "for=203.0.113.7, for=198.51.100.10"}, "198.51.100.10"},
		{[]core.IPOption{core.TrustHeader("X-Client")}, []string{"X-Client", "203.0.113.7", "X-Forwarded-For", "1.1.1.1, 198.51.100.10"}, ""},
	} {
		l := logtest.Default(t)
		c := adapter.ClientIP(append(x.options, core.TrustProxies("10.0.0.0/8"))...)
		for range 3 {
			_, err := c(from("10.0.0.5:1", fields(x.sent...)))
			require.NoError(t, err)
		}
		want := 0
		if x.peer != "" {
			want = 1
			assert.Contains(t, l.String(), "peer="+x.peer+" header="+x.sent[0]+"\n", "%q", x.sent)
		}
		assert.Equal(t, want, l.Count("RL701"), "%q: %s", x.sent, l.String())
	}
}

func TestTrustWithoutAProxyWarns(t *testing.T) {
	for name, option := range map[string]core.IPOption{"CF-Connecting-IP": core.TrustHeader("CF-Connecting-IP"), "Forwarded": core.TrustHeader("forwarded")} {
		l := logtest.Default(t)
		adapter.ClientIP(option)
		assert.Equal(t, 1, l.Count("header="+name+"\n"))
		for _, proxy := range []core.IPOption{core.TrustProxies("10.0.0.0/8"), core.TrustProxies("unix:")} {
			adapter.ClientIP(option, proxy)
		}
		assert.Equal(t, 1, l.Count("RL702"), "%s with a proxy", name)
	}
}

// A look at each request would cost too much, but a proxy may come in front of
// a service that runs for long.
func TestUntrustedProxyWarnsAfterManyRequestsWithoutOne(t *testing.T) {
	l := logtest.Default(t)
	c := adapter.ClientIP()
	for i := range 20_000 {
		forwarded := forwardedFor()
		if i >= 10_000 {
			forwarded = forwardedFor("203.0.113.5")
		}
		_, err := c(from("192.0.2.1:1", forwarded))
		require.NoError(t, err)
	}
	assert.Equal(t, 1, l.Count("core.TrustProxies"))
}

func TestTrustingEveryAddressWarns(t *testing.T) {
	for _, all := range []string{"0.0.0.0/0", "::/0"} {
		l := logtest.Default(t)
		adapter.ClientIP(core.TrustProxies("10.0.0.0/8", all))
		assert.Equal(t, 1, l.Count("trusts every address"), all)
	}
}
