package adapter_test

import (
	"net/http"
	"net/http/httptest"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/tokenbucket-go/ratelimit/core"
	"github.com/tokenbucket-go/ratelimit/core/adapter"
	"github.com/tokenbucket-go/ratelimit/httplimit"
	"github.com/tokenbucket-go/ratelimit/internal/logtest"
)

// A trusted proxy whose word can't be read has one bucket for all its clients.
// The log says so, with what it wrote but for its digits, which are those of a
// client's address.
func TestWhatATrustedProxyWritesAndNobodyCanReadIsWarnedOf(t *testing.T) {
	proxies, rfc7239, own := core.TrustProxies("10.0.0.0/8", "2001:db8:ffff::7"), core.TrustHeader("Forwarded"), core.TrustHeader("CF-Connecting-IP")
	for _, x := range []struct {
		options []core.IPOption
		peer    string
		sent    []string // fields and values
		says    string   // of the line in the log
	}{
		{[]core.IPOption{proxies, rfc7239}, "10.0.0.5:1", []string{"Forwarded", `for="2001:db8:1:0:0:0:0:17:4711"`}, `header=Forwarded value="for=\"0000:db0:0:0:0:0:0:00:0000\""`},
		{[]core.IPOption{proxies, rfc7239}, "10.0.0.5:1", []string{"Forwarded", "for=203.0.113.7, for=_hidden"}, `header=Forwarded value="for=_hidden"`},
		{[]core.IPOption{proxies, rfc7239}, "10.0.0.5:1", []string{"Forwarded", "for=unknown"}, `value="for=unknown"`},
		{[]core.IPOption{proxies, rfc7239}, "10.0.0.5:1", []string{"Forwarded", "by=10.0.0.5;proto=https"}, `value="by=00.0.0.0;proto=https"`},
		{[]core.IPOption{proxies, rfc7239}, "10.0.0.5:1", []string{"X-Forwarded-For", "203.0.113.7"}, "header=Forwarded value=(missing)"},
		{[]core.IPOption{proxies}, "10.0.0.5:1", []string{"X-Forwarded-For", "2001:db8:1:0:0:0:0:17:4711"}, "header=X-Forwarded-For value=0000:db0:0:0:0:0:0:00:0000"},
		{[]core.IPOption{proxies}, "10.0.0.5:1", []string{"X-Forwarded-For", "1.2.3.4, 203.0.113.7:99999"}, "value=000.0.000.0:00000"},
		{[]core.IPOption{proxies}, "10.0.0.5:1", []string{"X-Forwarded-For", "203.0.113.7, unknown, 10.0.0.6"}, "value=unknown"},
		{[]core.IPOption{proxies}, "10.0.0.5:1", []string{"X-Forwarded-For", "203.0.113.7,"}, "value=(empty)"},
		{[]core.IPOption{proxies}, "10.0.0.5:1", []string{"X-Forwarded-For", ""}, "value=(empty)"},
		{[]core.IPOption{proxies}, "10.0.0.5:1", []string{"Forwarded", "for=203.0.113.7"}, "header=X-Forwarded-For value=(missing)"},
		{[]core.IPOption{proxies}, "10.0.0.5:1", nil, "header=X-Forwarded-For value=(missing)"},
		{[]core.IPOption{proxies}, "[2001:db8:ffff::7]:1", []string{"X-Forwarded-For", "-"}, "peer=2001:db8:ffff::7 header=X-Forwarded-For value=-"},
		{[]core.IPOption{proxies, own}, "10.0.0.5:1", nil, "header=CF-Connecting-IP value=(missing)"},
		{[]core.IPOption{proxies, own}, "10.0.0.5:1", []string{"CF-Connecting-IP", "203.0.113.7", "CF-Connecting-IP", "203.0.113.8"}, `header=CF-Connecting-IP value="000.0.000.0, 000.0.000.0"`},
		{[]core.IPOption{proxies, own}, "10.0.0.5:1", []string{"CF-Connecting-IP", "x", "X-Forwarded-For", "unknown"}, "header=X-Forwarded-For value=unknown"},
	} {
		l := logtest.Default(t)
		key, err := adapter.ClientIP(x.options...)(from(x.peer, fields(x.sent...)))
		require.NoError(t, err, "%q", x.sent)
		assert.Contains(t, []string{"10.0.0.5", "10.0.0.6", "2001:db8:ffff::/64"}, key, "the premise: the key is a proxy's")
		assert.Equal(t, 1, l.Count("code=RL722"), "%q: %s", x.sent, l.String())
		assert.Contains(t, l.String(), x.says, "%q", x.sent)
		assert.Contains(t, l.String(), "requests=1 path=/sent peer=")
		assert.NotContains(t, l.String(), "113.7", "the log has no address of a client")
	}
}

// What can be read, or comes from nobody's proxy, is no reason for a warning.
func TestClientsThatAreFoundAreNotWarnedOf(t *testing.T) {
	for _, x := range []struct {
		peer string
		sent []string
	}{
		{"10.0.0.5:1", []string{"X-Forwarded-For", "203.0.113.7"}},
		{"10.0.0.5:1", []string{"X-Forwarded-For", "unknown, 203.0.113.7, 10.0.0.6"}},
		{"10.0.0.5:1", []string{"X-Forwarded-For", "10.0.0.6"}},                   // a proxy asks on its own behalf
		{"10.0.0.5:1", []string{"CF-Connecting-IP", "10.9.9.9"}},                  // a client within the range
		{"[2001:db8:ffff::7]:1", []string{"X-Forwarded-For", "2001:db8:ffff::9"}}, // in the proxy's network
		{"[2001:db8:ffff::9]:1", []string{"Accept", "*/*"}},                       // the same
		{"203.0.113.7:1", nil},
	} {
		l := logtest.Default(t)
		_, err := adapter.ClientIP(core.TrustProxies("10.0.0.0/8", "2001:db8:ffff::7"), core.TrustHeader("CF-Connecting-IP"))(from(x.peer, fields(x.sent...)))
		require.NoError(t, err)
		assert.Zero(t, l.Count("RL722"), "%s %q: %s", x.peer, x.sent, l.String())
	}
}

// The line names policy and path, and says for how many requests it stands.
func TestWhatCantBeReadIsWarnedOfOnceAMinute(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		lines := logtest.Default(t)
		store := core.NewMemoryStore()
		limiter := core.Must(core.NewLimiter(store, core.Policy{Name: "api", Limits: []core.Limit{core.PerMinute(100)}}))
		handler := httplimit.New(limiter, httplimit.ByIP(core.TrustProxies("10.0.0.0/8")))(http.NotFoundHandler())
		send := func(path, forwarded string) {
			r := httptest.NewRequest(http.MethodGet, path, nil)
			if r.RemoteAddr = "10.0.0.5:1"; forwarded != "" {
				r.Header.Set("X-Forwarded-For", forwarded)
			}
			handler.ServeHTTP(httptest.NewRecorder(), r)
		}
		for range 3 {
			for range 10 {
				send("/items", "unknown")
				send("/healthy", "")
			}
			time.Sleep(time.Minute)
		}
		for says, want := range map[string]int{
			"policy=api code=RL722 requests=1 path=/items peer=10.0.0.5 header=X-Forwarded-For value=unknown":  1,
			"policy=api code=RL722 requests=10 path=/items peer=10.0.0.5 header=X-Forwarded-For value=unknown": 2,
			"path=/healthy peer=10.0.0.5 header=X-Forwarded-For value=(missing)":                               1,
		} {
			if lines.Count(says) != want {
				t.Errorf("%q is logged %d times, want %d:\n%s", says, lines.Count(says), want, lines.String())
			}
		}
	})
}
