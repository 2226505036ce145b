package docs_test

import (
	"context"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/gin-gonic/gin"
	"github.com/go-chi/chi/v5"
	"github.com/gofiber/fiber/v2"
	fiber3 "github.com/gofiber/fiber/v3"
	"github.com/labstack/echo/v4"
	echo5 "github.com/labstack/echo/v5"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/tokenbucket-go/ratelimit/chilimit"
	"github.com/tokenbucket-go/ratelimit/core"
	"github.com/tokenbucket-go/ratelimit/core/redisstore"
	"github.com/tokenbucket-go/ratelimit/echolimit"
	echolimit5 "github.com/tokenbucket-go/ratelimit/echolimit/v5"
	"github.com/tokenbucket-go/ratelimit/fiberlimit"
	fiberlimit3 "github.com/tokenbucket-go/ratelimit/fiberlimit/v3"
	"github.com/tokenbucket-go/ratelimit/ginlimit"
	"github.com/tokenbucket-go/ratelimit/httplimit"
	"github.com/tokenbucket-go/ratelimit/internal/redistest"
)

// The key by parameter is decoded, whatever handlers read of /items/%61, as
// keys-and-trust.md says.
func TestParametersAsHandlersReadThem(t *testing.T) {
	gin.SetMode(gin.ReleaseMode)
	g := gin.New()
	g.GET("/items/:id", func(c *gin.Context) {
		key, _ := ginlimit.ByParam("id")(c)
		c.String(http.StatusOK, "%s", c.Param("id")+" "+key)
	})
	e := echo.New()
	e.GET("/items/:id", func(c echo.Context) error {
		key, _ := echolimit.ByParam("id")(c)
		return c.String(http.StatusOK, c.Param("id")+" "+key)
	})
	e5 := echo5.New()
	e5.GET("/items/:id", func(c *echo5.Context) error {
		key, _ := echolimit5.ByParam("id")(c)
		return c.String(http.StatusOK, c.Param("id")+" "+key)
	})
	c := chi.NewRouter()
	c.Get("/items/{id}", func(w http.ResponseWriter, r *http.Request) {
		key, _ := chilimit.ByParam("id")(r)
		_, _ = io.WriteString(w, chi.URLParam(r, "id")+" "+key)
	})
	m := http.NewServeMux()
	m.HandleFunc("/items/{id}", func(w http.ResponseWriter, r *http.Request) {
		key, _ := httplimit.ByParam("id")(r)
		_, _ = io.WriteString(w, r.PathValue("id")+" "+key)
	})
	for _, framework := range []struct {
		name string
		send func(*http.Request) *http.Response
		want string
	}{
		{"gin", onHandler(g), "a"}, {"net/http", onHandler(m), "a"}, {"echo", onHandler(e), "%61"}, {"echo v5", onHandler(e5), "%61"}, {"chi", onHandler(c), "%61"},
		{"fiber", onFiber(t, false), "%61"}, {"fiber, unescaped", onFiber(t, true), "a"},
		{"fiber v3", onFiber3(t, false), "%61"}, {"fiber v3, unescaped", onFiber3(t, true), "a"},
	} {
		body, err := io.ReadAll(framework.send(httptest.NewRequest(http.MethodGet, "/items/%61", nil)).Body)
		require.NoError(t, err)
		assert.Equal(t, framework.want+" param:id:a", string(body), framework.name)
	}
}

func onFiber(t *testing.T, unescape bool) func(*http.Request) *http.Response {
	t.Helper()
	app := fiber.New(fiber.Config{UnescapePath: unescape})
	app.Get("/items/:id", func(c *fiber.Ctx) error {
		key, _ := fiberlimit.ByParam("id")(c)
		return c.SendString(c.Params("id") + " " + key)
	})
	return func(r *http.Request) *http.Response {
		res, err := app.Test(r, -1)
		require.NoError(t, err)
		return res
	}
}

func onFiber3(t *testing.T, unescape bool) func(*http.Request) *http.Response {
	t.Helper()
	app := fiber3.New(fiber3.Config{UnescapePath: unescape})
	app.Get("/items/:id", func(c fiber3.Ctx) error {
		key, _ := fiberlimit3.ByParam("id")(c)
		return c.SendString(c.Params("id") + " " + key)
	})
	return func(r *http.Request) *http.Response {
		res, err := app.Test(r, fiber3.TestConfig{})
		require.NoError(t, err)
		return res
	}
}

func onHandler(h http.Handler) func(*http.Request) *http.Response {
	return func(r *http.Request) *http.Response {
		rec := httptest.NewRecorder()
		h.ServeHTTP(rec, r)
		return rec.Result()
	}
}

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
	r := httptest.NewRequest(http.MethodGet, "/", nil)
	r.Header.Set("X-Api-Key", strings.Repeat("k", 129))
	key, err := httplimit.ByHeader("X-Api-Key")(r)
	require.NoError(t, err)
	assert.Regexp(t, `^x-api-key:%sha256=[0-9a-f]{64}$`, key)
	assert.Contains(t, string(read(t, "keys-and-trust.md")), "`x-api-key:%sha256=…`")
	client, prefix := redistest.Client(t), redistest.Prefix()
	limiter := core.Must(core.NewLimiter(redisstore.New(client, redisstore.WithPrefix(prefix), redisstore.WithTimeout(time.Minute)),
		core.Policy{Name: "api", Limits: []core.Limit{core.PerMinute(60)}}))
	shown := string(read(t, "operations.md"))
	whole := strings.Repeat("k", 129)
	for long, form := range map[string]string{key: "api:x-api-key:%sha256=", whole: "api:sha256:"} {
		_, err := limiter.Allow(t.Context(), long)
		require.NoError(t, err)
		assert.Len(t, client.Keys(t.Context(), prefix+form+"*").Val(), 1, "the key in Redis begins with %s", form)
		assert.Contains(t, shown, "`ratelimit:"+form+"…`")
	}
}
