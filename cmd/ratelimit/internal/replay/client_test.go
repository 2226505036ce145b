package replay_test

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/tokenbucket-go/ratelimit/cmd/ratelimit/internal/replay"
	"github.com/tokenbucket-go/ratelimit/core"
	"github.com/tokenbucket-go/ratelimit/httplimit"
)

// keyOf returns the key of a request, or why it has none.
func keyOf(t testing.TB, line string, o replay.Options) (key string, err error) {
	t.Helper()
	traffic, err := replay.NewTraffic(o)
	require.NoError(t, err)
	if err := traffic.Read(t.Context(), "a.log", strings.NewReader(line+"\n"+line)); err != nil {
		return "", err
	}
	once := core.Policy{Name: "once", Limits: []core.Limit{core.Per(1, 24*time.Hour)}}
	report, err := traffic.Replay(t.Context(), replay.Policy{Policy: once})
	if err != nil {
		return "", err
	}
	return report.Policies[0].MostDenied[0].Key, nil // its second request is denied
}

// combined is a line of the combined format, with what stands in front of the
// time and behind the size.
func combined(front, behind string) string {
	return front + ` - - [02/Mar/2026:12:00:00 +0000] "GET /a HTTP/1.1" 200 12 ` + behind + "\n"
}

// caddy is a line of Caddy's.
func caddy(peer, client, headers string) string {
	return fmt.Sprintf(`{"ts":1772452800.5,"request":{"remote_ip":%q,"client_ip":%q,"method":"GET","uri":"/a","headers":{%s}},"status":200}`, peer, client, headers)
}

// A log that proxies write has the client where ByIP of a service finds it that
// trusts the same proxies.
func TestClientsAreThoseOfByIP(t *testing.T) {
	ten := []string{"10.0.0.0/8", "2001:db8:ffff::/48", "unix:"}
	agents := func(forwarded string) string { return `"-" "curl/8.5.0" "` + forwarded + `"` }
	for name, c := range map[string]struct {
		line  string
		trust []string
		want  string
	}{
		"an address":                              {combined("203.0.113.7", `"-" "x"`), nil, "ip:203.0.113.7"},
		"an address with a port":                  {combined("203.0.113.7:4711", ""), nil, "ip:203.0.113.7"},
		"IPv6":                                    {combined("2001:db8:1:2:3::4", ""), nil, "ip:2001:db8:1:2::/64"},
		"IPv6 with a port":                        {combined("[2001:db8:1:2:3::4]:443", ""), nil, "ip:2001:db8:1:2::/64"},
		"IPv4 mapped into IPv6":                   {combined("::ffff:203.0.113.7", ""), nil, "ip:203.0.113.7"},
		"the proxy is behind the client":          {combined("203.0.113.7, 10.0.0.5", ""), ten, "ip:203.0.113.7"},
		"without a space":                         {combined("203.0.113.7,10.0.0.5", ""), ten, "ip:203.0.113.7"},
		"two proxies":                             {combined("203.0.113.7, 10.0.0.4, 10.0.0.5", ""), ten, "ip:203.0.113.7"},
		"a client forges addresses in front":      {combined("1.2.3.4, 203.0.113.7, 10.0.0.5", ""), ten, "ip:203.0.113.7"},
		"IPv6 of both":                            {combined("2001:db8:1:2::9, 2001:db8:ffff::5", ""), ten, "ip:2001:db8:1:2::/64"},
		"nobody vouches for what is no address":   {combined("unknown, 10.0.0.5", ""), ten, "ip:10.0.0.5"},
		"the last one is no proxy":                {combined("203.0.113.7, 198.51.100.9", ""), ten, "ip:198.51.100.9"},
		"a proxy asks on its own":                 {combined("10.0.0.5", agents("-")), ten, "ip:10.0.0.5"},
		"nginx: the proxy forwards":               {combined("10.0.0.5", agents("1.2.3.4, 203.0.113.7")), ten, "ip:203.0.113.7"},
		"nginx: a client beside the proxy forges": {combined("203.0.113.7", agents("1.2.3.4")), ten, "ip:203.0.113.7"},
		"nginx: without --trust it is the peer":   {combined("10.0.0.5", agents("203.0.113.7")), nil, "ip:10.0.0.5"},
		"nginx: a proxy on a Unix socket":         {combined("unix:", agents("203.0.113.7")), ten, "ip:203.0.113.7"},
		"nginx, JSON":                             {`{"msec":"1.5","remote_addr":"10.0.0.5","http_x_forwarded_for":"203.0.113.7"}`, ten, "ip:203.0.113.7"},
		"nginx, JSON: a proxy asks on its own":    {`{"msec":"1.5","remote_addr":"10.0.0.5","http_x_forwarded_for":""}`, ten, "ip:10.0.0.5"},
		"Caddy has found the client":              {caddy("10.0.0.5", "203.0.113.7", ""), nil, "ip:203.0.113.7"},
		"Caddy trusts what the client forged":     {caddy("10.0.0.5", "1.2.3.4", `"X-Forwarded-For":["1.2.3.4, 203.0.113.7"]`), ten, "ip:203.0.113.7"},
		"Caddy: several fields are one list":      {caddy("10.0.0.5", "1.2.3.4", `"X-Forwarded-For":["1.2.3.4","203.0.113.7, 10.0.0.4"]`), ten, "ip:203.0.113.7"},
		"Caddy: a proxy asks on its own":          {caddy("10.0.0.5", "10.0.0.5", `"Accept":["*/*"]`), ten, "ip:10.0.0.5"},
		"Caddy without headers has found it":      {`{"ts":1,"request":{"remote_ip":"10.0.0.5","client_ip":"203.0.113.7"}}`, ten, "ip:203.0.113.7"},
		"Caddy before 2.7 knows the peer alone":   {`{"ts":1,"request":{"remote_ip":"203.0.113.7","remote_port":"1"}}`, nil, "ip:203.0.113.7"},
		"Traefik":                                 {`{"StartUTC":"2026-03-02T12:00:00Z","ClientAddr":"203.0.113.7:4711","ClientHost":"203.0.113.7"}`, nil, "ip:203.0.113.7"},
		"Traefik behind a proxy":                  {`{"StartUTC":"2026-03-02T12:00:00Z","ClientAddr":"10.0.0.5:1","request_X-Forwarded-For":"203.0.113.7"}`, ten, "ip:203.0.113.7"},
		"a port in X-Forwarded-For":               {combined("203.0.113.7:80, 10.0.0.5:80", ""), ten, "ip:203.0.113.7"},
	} {
		key, err := keyOf(t, c.line, replay.Options{Key: "ip", Trust: c.trust})
		require.NoError(t, err, name)
		assert.Equal(t, c.want, key, name)
	}
}

// What a log does not say is not guessed: of several addresses without --trust
// nothing is replayed, and a line whose client is not known is left out.
func TestClientsThatALogDoesNotName(t *testing.T) {
	for _, list := range []string{"203.0.113.7, 10.0.0.5", "203.0.113.7,10.0.0.5", "unknown, 10.0.0.5", "example.com 203.0.113.7, 10.0.0.5"} {
		for _, o := range []replay.Options{{Key: "ip"}, {Key: "path+ip"}, {Key: "path", Only: []string{"ip=192.0.2.1"}}, {Key: "path", Skip: []string{"ip=1.1.1.1"}}} {
			_, err := keyOf(t, combined("192.0.2.1", "")+combined(list, ""), o)
			require.ErrorAs(t, err, new(*replay.UnknownClientError), "%v %s", o, list)
			require.ErrorContains(t, err, "a.log:2: ", list)
			require.ErrorContains(t, err, "--trust", list)
		}
		key, err := keyOf(t, combined(list, ""), replay.Options{Key: "path"})
		require.NoError(t, err, "no address is needed")
		assert.Equal(t, "path:/a", key)
	}
	proxy := []string{"10.0.0.0/8", "fe80::/10"}
	for line, says := range map[string]string{
		combined("-", ""):                                           "the line has no address",
		combined("crawler.example.com", ""):                         `"crawler.example.com" is not an IP address`,
		combined("203.0.113.7 10.0.0.5", ""):                        "the line begins with two addresses",
		combined("10.0.0.5", ""):                                    `"10.0.0.5" is a proxy, and the line has no X-Forwarded-For`,
		combined("10.0.0.5", `"-" "x" "0.004"`):                     `"10.0.0.5" is a proxy, and the line has no X-Forwarded-For`,
		`{"msec":"1.5","remote_addr":"10.0.0.5"}`:                   `"10.0.0.5" is a proxy, and the line has no X-Forwarded-For`,
		`{"ts":1,"request":{"remote_ip":"10.0.0.5"}}`:               `"10.0.0.5" is a proxy, and the line has no X-Forwarded-For`,
		combined("fe80::1%\x1b[2J", ""):                             `"fe80::1%\x1b[2J" is a proxy`,
		combined("unix:", ""):                                       `core.TrustProxies("unix:")`,
		`{"ts":1}`:                                                  "the line has no address",
		`{"ts":1,"remote_addr":{"x":1}}`:                            "the line has no address",
		`{"ts":1,"remote_addr":"10.0.0.5","remote_addr":"1.1.1.1"}`: `the member "remote_addr" twice`,
	} {
		_, err := keyOf(t, line, replay.Options{Key: "ip", Trust: proxy})
		require.ErrorContains(t, err, "no line is a request; 2 lines left out", line)
		require.ErrorContains(t, err, says, line)
	}
	report := replayed(t, combined("10.0.0.5", `"-" "x" "203.0.113.7"`)+combined("10.0.0.5", `"-" "x" "-"`), replay.Options{Key: "ip"}, "1/h")
	assert.Contains(t, strings.Join(report.Remarks, "\n"), "X-Forwarded-For: if proxies sent it, name them with --trust")
	report = replayed(t, caddy("10.0.0.5", "203.0.113.7", `"X-Forwarded-For":["203.0.113.7"]`), replay.Options{Key: "ip"}, "1/h")
	assert.Empty(t, report.Remarks, "Caddy knows its proxies")
}

// A path is one key for a server, for its limiter and for the log of a proxy.
func TestPathsAreThoseOfByPath(t *testing.T) {
	var key string
	byPath := httplimit.ByPath()
	server := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { key, _ = byPath(r) }))
	defer server.Close()
	for _, request := range []string{
		"GET /api/a", "GET /api/a?b=c", "GET https://example.com/api/a", "GET http://example.com", "GET http://example.com?x=/y", "GET /a%20b%2Fc", "GET //a/../b", "GET /a:b",
		"OPTIONS *", "CONNECT example.com:443", "CONNECT 192.0.2.9:443", "GET /a#b", "GET /caf%C3%A9",
	} {
		key = ""
		conn, err := net.Dial("tcp", server.Listener.Addr().String())
		require.NoError(t, err)
		_, err = fmt.Fprintf(conn, "%s HTTP/1.1\r\nHost: example.com\r\nConnection: close\r\n\r\n", request)
		require.NoError(t, err)
		_, err = http.ReadResponse(bufio.NewReader(conn), nil)
		require.NoError(t, err)
		_, _ = io.Copy(io.Discard, conn)
		_ = conn.Close()
		if request != "OPTIONS *" { // net/http answers by itself
			require.NotEmpty(t, key, "the premise: the server has taken %s", request)
			got, err := keyOf(t, `192.0.2.1 - - [02/Mar/2026:12:00:00 +0000] "`+request+` HTTP/1.1" 200 12`, replay.Options{Key: "path"})
			require.NoError(t, err, request)
			assert.Equal(t, key, got, request)
		}
	}
	for _, target := range []string{"a", "/%zz", "-", `\x16\x03`, "/a b", "http://[::1"} {
		_, err := keyOf(t, `192.0.2.1 - - [02/Mar/2026:12:00:00 +0000] "GET `+target+` HTTP/1.1" 400 12`, replay.Options{Key: "path"})
		require.ErrorContains(t, err, "no line is a request", target)
	}
}

func TestKeysAreThoseOfTheLibrary(t *testing.T) {
	nginx := `{"msec":"1.5","remote_addr":"192.0.2.1","request_method":"PURGE","request_uri":"/a","http_x_api_key":"k:1","tenant":"t%1"}`
	for name, c := range map[string]struct{ line, key, want string }{
		"header of nginx":              {nginx, "header:x-api-key", "x-api-key:k:1"},
		"header of Caddy":              {caddy("1.1.1.1", "1.1.1.1", `"X-Api-Key":["k:1"]`), "header:X-API-Key", "x-api-key:k:1"},
		"header of Traefik":            {`{"StartUTC":"2026-03-02T12:00:00Z","request_X-Api-Key":"k:1"}`, "header:x-api-key", "x-api-key:k:1"},
		"header of the combined":       {combined("192.0.2.1", `"-" "curl/8.5.0"`), "header:user-agent", "user-agent:curl/8.5.0"},
		"header in another field":      {nginx, "header:x-tenant=tenant", "x-tenant:t%251"},
		"Authorization, as ByHeader":   {`{"ts":1,"http_authorization":"BEARER  x"}`, "header:authorization", "authorization:bearer x"},
		"method":                       {nginx, "method", "method:other"},
		"another field":                {nginx, "tenant", "tenant:t%251"},
		"a member of a member":         {caddy("1.1.1.1", "1.1.1.1", `"Host":["a"]`), "request.headers.Host", "request.headers.Host:a"},
		"a user with spaces":           {`192.0.2.1 - ann b. [x] [02/Mar/2026:12:00:00 +0000] "GET / HTTP/1.1" 200 1`, "remote_user", `remote_user:ann b. [x]`},
		"two joined":                   {nginx, "ip+path", "ip:192.0.2.1|path:/a"},
		"bytes that are no characters": {"{\"ts\":1,\"tenant\":\"a\xff\x00\"}", "tenant", `"tenant:a\xff\x00"`},
	} {
		key, err := keyOf(t, c.line, replay.Options{Key: c.key})
		require.NoError(t, err, name)
		assert.Equal(t, c.want, key, name)
	}
	for _, c := range [][2]string{
		{`{"ts":1,"request":{"headers":{"Authorization":["REDACTED"]}}}`, "header:authorization"}, {nginx, "user"}, {nginx, "header:x-user"}, {nginx, "ip+user"},
		{caddy("1.1.1.1", "1.1.1.1", `"X-Api-Key":["a","b"]`), "header:x-api-key"},
	} {
		_, err := keyOf(t, c[0], replay.Options{Key: c[1]})
		require.ErrorContains(t, err, "whose client is not known", "a line without a value has no key: %s", c[1])
	}
}

func TestMistakesInOptionsAreNamed(t *testing.T) {
	for says, o := range map[string]replay.Options{
		"--key needs":               {Key: ""},
		"--key needs ip, path":      {Key: "ip+"},
		"--key header:bad name: ":   {Key: "header:bad name=x"},
		`"10.0.0.0/33" must be an`:  {Key: "ip", Trust: []string{"10.0.0.0/33"}},
		`--only "path" must be`:     {Key: "ip", Only: []string{"path"}},
		`--skip "=x" must be FIELD`: {Key: "ip", Skip: []string{"=x"}},
	} {
		_, err := replay.NewTraffic(o)
		require.ErrorContains(t, err, says)
	}
}
