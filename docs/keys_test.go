package docs_test

import (
	"context"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/tokenbucket-go/ratelimit/core"
	"github.com/tokenbucket-go/ratelimit/core/redisstore"
	"github.com/tokenbucket-go/ratelimit/httplimit"
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
