package docs_test

import (
	"context"
	"net/http"
	"net/http/httptest"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/tokenbucket-go/ratelimit/core"
	"github.com/tokenbucket-go/ratelimit/core/redisstore"
	"github.com/tokenbucket-go/ratelimit/httplimit"
	"github.com/tokenbucket-go/ratelimit/internal/logtest"
	"github.com/tokenbucket-go/ratelimit/internal/redistest"
)

// Extractors make keys as keys-and-trust.md writes them.
func TestKeysAreWrittenAsOnThePage(t *testing.T) {
	page := string(read(t, "keys-and-trust.md"))
	r := httptest.NewRequest(http.MethodGet, "/a:b?q=red", nil)
	r.Header = http.Header{"X-Api-Key": {"ann"}, "Ip": {"192.0.2.1"}, "Authorization": {"BASIC YW5uOjE"}, "Cookie": {"session=abc"}}
	r.Pattern = "/items/{id}"
	r.SetPathValue("id", "7")
	//lint:ignore SA1029 as on the page
	r = r.WithContext(context.WithValue(r.Context(), "user", "bob"))
	six := r.Clone(r.Context())
	six.RemoteAddr = "[2001:db8::1]:1"
	own := func(key string) httplimit.KeyFunc { return func(*http.Request) (string, error) { return key, nil } }
	route, header := httplimit.ByRoute(), httplimit.ByHeader("X-Api-Key")
	for _, key := range []httplimit.KeyFunc{
		httplimit.ByIP(), func(*http.Request) (string, error) { return httplimit.ByIP()(six) }, header, httplimit.ByCookie("session"), httplimit.ByQuery("q"), httplimit.ByParam("id"),
		httplimit.ByMethod(), httplimit.ByPath(), route, httplimit.ByContextValue("user"), httplimit.Global("all"), own(core.JoinKey("user", "acme", "7")),
		httplimit.Join(route, header), httplimit.ByHeader("IP"), httplimit.ByHeader("Authorization"), httplimit.Join(own("a|b"), header),
	} {
		text, err := key(r)
		require.NoError(t, err)
		assert.Contains(t, page, "`"+text+"`")
	}
}

// A long value is hashed as the pages say, and its key in Redis is not hashed
// again.
func TestLongKeysLookAsOnThePages(t *testing.T) {
	whole := strings.Repeat("k", 129)
	r := httptest.NewRequest(http.MethodGet, "/", nil)
	r.Header.Set("X-Api-Key", whole)
	key, err := httplimit.ByHeader("X-Api-Key")(r)
	require.NoError(t, err)
	assert.Regexp(t, `^x-api-key:%sha256=[0-9a-f]{64}$`, key)
	assert.Contains(t, string(read(t, "keys-and-trust.md")), "`x-api-key:%sha256=…`")
	client, prefix := redistest.Client(t), redistest.Prefix()
	store := redisstore.New(client, redisstore.WithPrefix(prefix), redisstore.WithTimeout(time.Minute))
	limiter := core.Must(core.NewLimiter(store, core.Policy{Name: "api", Limits: []core.Limit{core.PerMinute(60)}}))
	for long, form := range map[string]string{key: "api:x-api-key:%sha256=", whole: "api:sha256:"} {
		_, err := limiter.Allow(t.Context(), long)
		require.NoError(t, err)
		assert.Len(t, client.Keys(t.Context(), prefix+form+"*").Val(), 1, "the key in Redis begins with %s", form)
		assert.Contains(t, string(read(t, "operations.md")), "`ratelimit:"+form+"…`")
	}
}

// arrival is a request as it reaches a service behind proxies. Its client is
// 203.0.113.7, and has sent "X-Forwarded-For: 1.1.1.1" and the field that the
// deployment trusts.
type arrival struct {
	peer   string
	header http.Header
	also   []core.IPOption // that the line of the page says in words
}

func behind(peer, forwardedFor string, also ...core.IPOption) arrival {
	return arrival{peer, http.Header{"X-Forwarded-For": {forwardedFor}}, also}
}

func (a arrival) with(field, value string) arrival {
	a.header.Set(field, value)
	return a
}

// deployments has requests for each line of the page, by how the line begins.
var deployments = map[string][]arrival{
	"clients connect directly":   {behind("203.0.113.7:4711", "1.1.1.1")},
	"one nginx on the same host": {behind("127.0.0.1:4711", "1.1.1.1, 203.0.113.7"), behind("[::1]:4711", "1.1.1.1, 203.0.113.7")},
	"one nginx elsewhere":        {behind("10.0.0.7:4711", "1.1.1.1, 203.0.113.7")},
	"Traefik, Caddy":             {behind("172.18.0.2:4711", "203.0.113.7")},
	"AWS ALB":                    {behind("10.0.5.12:4711", "1.1.1.1, 203.0.113.7"), behind("10.0.17.3:4711", "1.1.1.1, 203.0.113.7:56789")},
	"AWS API Gateway (HTTP API), then an ALB": {
		behind("10.0.5.12:4711", "10.0.9.9").with("Forwarded", "for=203.0.113.7;host=api.example.com;proto=https"),
		behind("10.0.5.12:4711", "10.0.9.9").with("Forwarded", "for=1.1.1.1,for=203.0.113.7;by=3.4.5.6;host=abc.execute-api.us-east-1.amazonaws.com;proto=https"),
	},
	"Google's external Application Load Balancer": {behind("35.191.10.2:4711", "1.1.1.1,203.0.113.7,192.0.2.10"), behind("130.211.1.2:4711", "1.1.1.1,203.0.113.7,192.0.2.10")},
	"Google Cloud Run": {
		behind("169.254.169.126:4711", "1.1.1.1,203.0.113.7"),
		behind("169.254.169.126:4711", "1.1.1.1,203.0.113.7,192.0.2.10", core.TrustProxies("192.0.2.10")),
	},
	"Azure Application Gateway": {behind("10.1.0.5:4711", "1.1.1.1, 203.0.113.7:56789")},
	"Azure App Service":         {behind("169.254.129.1:4711", "1.1.1.1, 203.0.113.7:56789")},
	"Heroku":                    {behind("10.1.45.23:4711", "1.1.1.1, 203.0.113.7")},
	"Fly.io":                    {behind("172.16.3.114:4711", "1.1.1.1, 203.0.113.7, 66.241.124.1").with("Fly-Client-Ip", "203.0.113.7")},
	"CloudFront, then an ALB":   {behind("10.0.5.12:4711", "1.1.1.1, 203.0.113.7, 130.176.1.2", core.TrustProxies("10.0.0.0/20", "130.176.0.0/17"))},
	"Cloudflare":                {behind("173.245.48.9:4711", "1.1.1.1,203.0.113.7").with("Cf-Connecting-Ip", "203.0.113.7")},
	"Cloudflare, then your nginx": {
		behind("127.0.0.1:4711", "1.1.1.1,203.0.113.7, 173.245.48.9", core.TrustProxies("127.0.0.1", "173.245.48.0/20")).with("Cf-Connecting-Ip", "203.0.113.7"),
		behind("127.0.0.1:4711", "1.1.1.1, 203.0.113.7", core.TrustProxies("127.0.0.1", "173.245.48.0/20")).with("Cf-Connecting-Ip", "1.1.1.1"), // past Cloudflare
	},
	"Kubernetes, ingress-nginx":                                      {behind("10.244.1.9:4711", "203.0.113.7")},
	"a layer-7 balancer, then ingress-nginx":                         {behind("10.244.1.9:4711", "1.1.1.1, 203.0.113.7, 10.0.5.12", core.TrustProxies("10.244.0.0/16", "10.0.0.0/20"))},
	"a proxy on a Unix socket":                                       {behind("@", "1.1.1.1, 203.0.113.7")},
	"a proxy that writes Forwarded (RFC 7239)":                       {behind("10.0.0.7:4711", "1.1.1.1", core.TrustProxies("10.0.0.7")).with("Forwarded", `for=1.1.1.1, for="203.0.113.7:4711";proto=https`)},
	"AWS Lambda, and other hosts that set an address without a port": nil, // no proxy: TestARewrittenAddressIsRefused
	"a container behind Docker's NAT":                                nil, // nothing says who the client is
}

var (
	proxyOption  = regexp.MustCompile(`core.TrustProxies\(([^)]*)\)`)
	headerOption = regexp.MustCompile(`core.TrustHeader\("([^"]*)"\)`)
	quotedRange  = regexp.MustCompile(`"([^"]*)"`)
)

// Each line of the table in keys-and-trust.md finds the client of a request as
// the proxies of that deployment send it, whatever the client has sent itself.
func TestDeploymentsFindTheClient(t *testing.T) {
	_, table, found := strings.Cut(string(read(t, "keys-and-trust.md")), "| deployment | options of `ByIP` | what must be true |\n| --- | --- | --- |\n")
	require.True(t, found)
	table, _, _ = strings.Cut(table, "\n\n")
	seen := 0
	for row := range strings.Lines(table) {
		cells := strings.Split(row, "|")
		name := strings.TrimSpace(cells[1])
		requests, known := deployments[name]
		require.True(t, known, "the line %q needs a request", name)
		seen++
		var options []core.IPOption
		for _, list := range proxyOption.FindAllStringSubmatch(cells[2], -1) {
			for _, one := range quotedRange.FindAllStringSubmatch(list[1], -1) {
				options = append(options, core.TrustProxies(one[1]))
			}
		}
		if field := headerOption.FindStringSubmatch(cells[2]); field != nil {
			options = append(options, core.TrustHeader(field[1]))
		}
		for _, a := range requests {
			l := logtest.Default(t)
			key, err := httplimit.ClientIP(append(options, a.also...)...)(&http.Request{RemoteAddr: a.peer, Header: a.header})
			require.NoError(t, err, name)
			assert.Equal(t, "203.0.113.7", key, "%s: %+v", name, a)
			assert.Zero(t, l.Count("RL722"), "%s: %s", name, l.String())
		}
	}
	assert.Equal(t, len(deployments), seen, "each request is of a line")
}

// With an option less, all clients of Google's balancer and of Fly have the key
// of the balancer. The log names it.
func TestWhatThePageWarnsOfIsTrue(t *testing.T) {
	for _, c := range []struct {
		option core.IPOption
		sent   arrival
		key    string
		logged int
	}{
		{core.TrustProxies("35.191.0.0/16", "130.211.0.0/22"), behind("35.191.10.2:4711", "203.0.113.7,192.0.2.10"), "192.0.2.10", 1},
		{core.TrustProxies("172.16.0.0/12"), behind("172.16.3.114:4711", "203.0.113.7, 66.241.124.1").with("Fly-Client-Ip", "203.0.113.7"), "66.241.124.1", 1},
		{core.TrustProxies("10.0.0.0/8"), behind("10.0.5.12:4711", "10.0.9.9").with("Forwarded", "for=203.0.113.7"), "10.0.9.9", 0},
	} {
		l := logtest.Default(t)
		key, err := httplimit.ClientIP(c.option)(&http.Request{RemoteAddr: c.sent.peer, Header: c.sent.header})
		require.NoError(t, err)
		assert.Equal(t, c.key, key)
		assert.Equal(t, c.logged, l.Count("code=RL701 peer="+c.key+" header=X-Forwarded-For"), l.String())
	}
}
