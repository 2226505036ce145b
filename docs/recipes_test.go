package docs_test

import (
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/netip"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/tokenbucket-go/ratelimit/internal/logtest"
	"github.com/tokenbucket-go/ratelimit/internal/onebinary"
	"github.com/tokenbucket-go/ratelimit/internal/redistest"
)

// recipe is a block of Go that limits by the client's address, without a
// package clause.
type recipe struct {
	serves  string // the variable that has the handler
	path    string // of a request that it limits
	proxied bool   // it names its proxies
	redis   bool   // it shows a Redis
	byUser  bool   // it does not limit by address
}

// recipes are those of the pages, by the name of the block.
var recipes = map[string]recipe{
	"readme_1":     {serves: "r", path: "/login"},
	"middleware_2": {serves: "r", path: "/login"},
	"middleware_4": {serves: "mux", path: "/login"},
	"middleware_5": {serves: "r", path: "/items", byUser: true},
	"middleware_7": {serves: "r", path: "/login", proxied: true},
	"policies_1":   {serves: "mux", path: "/search"},
	"readme_3":     {serves: "r", path: "/", redis: true},
}

// byAddress finds the blocks that limit by the client's address. The one of
// errors.md shows a mistake.
var byAddress = regexp.MustCompile(`\b(ByIP|PerIP|ClientIP)\(`)

// readers is what the reader of a recipe has: a login that admits the password
// "right".
const readers = `

import (
	"log"
	"net/http"
	"strings"

	"github.com/gin-gonic/gin"

	"github.com/tokenbucket-go/ratelimit/core"
)

var (
	store      core.Store = core.NewMemoryStore()
	limiter               = core.Must(core.NewLimiter(store, core.Policy{Name: "api", Limits: []core.Limit{core.PerHour(5)}}))
	r                     = gin.New()
	mux                   = http.NewServeMux()
)

var handler http.Handler = http.HandlerFunc(func(http.ResponseWriter, *http.Request) {})

func userOf(*gin.Context) string { return "ann" }

func verifyKey(c *gin.Context) {
	users := map[string]string{"ann-secret": "ann", "bob-secret": "bob"}
	user, known := users[c.GetHeader("X-Api-Key")]
	if !known {
		c.AbortWithStatus(http.StatusUnauthorized)
		return
	}
	c.Set("user", user)
}

func work([]byte) {}

func correct(user, password string) bool { return password == "right" }

var login = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
	body := make([]byte, 1000)
	n, _ := r.Body.Read(body)
	if !strings.Contains(string(body[:n]), "right") {
		w.WriteHeader(http.StatusUnauthorized)
	}
})

// main serves the recipe. A field tells from which address a request comes that does not come through the proxy.
func main() {
	gin.SetMode(gin.ReleaseMode)
	served := recipe()
	log.Fatal(http.ListenAndServe(address, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if peer := r.Header.Get("Test-Peer"); peer != "" {
			r.RemoteAddr = peer
			r.Header.Del("Test-Peer")
		}
		served.ServeHTTP(w, r)
	})))
}
`

// buildRecipes compiles the recipes. They trust the test's proxy instead of the
// reader's.
var buildRecipes = sync.OnceValues(func() (file string, err error) {
	pages, err := filepath.Glob("*.md")
	if err != nil {
		return "", err
	}
	set := onebinary.New("github.com/tokenbucket-go/ratelimit/docs", "_recipes")
	for _, page := range append(pages, "../README.md") {
		text, err := os.ReadFile(page)
		if err != nil {
			return "", err
		}
		for i, block := range fence.FindAllStringSubmatch(string(text), -1) {
			name := nameOf(page, i)
			if recipe, ok := recipes[name]; ok {
				addProgram(set, name, "package main"+readers, false)
				set.File(name, "recipe.go", "package "+name+recipe.source(block[1]))
			}
		}
	}
	policies := filepath.Join(buildDir, "policies.yaml") // in which the program runs
	file = filepath.Join(buildDir, "recipes")
	if err := os.WriteFile(policies, []byte("policies:\n  - name: search\n    limits: [5/hour]\n"), 0o600); err != nil {
		return "", err
	}
	return file, set.Build(file)
})

// recipeCommand returns a command that serves a recipe on an address. A recipe
// that shows Redis has a server of its own.
func recipeCommand(t *testing.T, name, address string) *exec.Cmd {
	t.Helper()
	file, err := buildRecipes()
	require.NoError(t, err)
	c := exec.Command(file)
	c.Dir, c.Env = buildDir, append(os.Environ(), "PROGRAM="+name, "ADDRESS="+address)
	if recipes[name].redis {
		c.Env = append(c.Env, "REDIS_URL=redis://"+redistest.Start(t).Addr)
	}
	return c
}

// perMinute finds limits that would get a token back while a test empties a
// bucket.
var perMinute = regexp.MustCompile(`core\.PerMinute\((\d+)\)`)

// source is the rest of a file that returns the handler of a block.
func (r recipe) source(block string) string {
	block = strings.ReplaceAll(here.Replace(block), `"10.0.0.7"`, `"127.0.0.1"`)
	block = perMinute.ReplaceAllString(block, "core.Per($1, 20*time.Hour)")
	body := "func recipe() http.Handler {\n" + block + "\treturn " + r.serves + "\n}\n"
	return importing(body) + body
}

func TestEveryRecipeByAddressIsRun(t *testing.T) {
	t.Parallel()
	pages, err := filepath.Glob("*.md")
	require.NoError(t, err)
	found := 0
	for _, page := range append(pages, "../README.md") {
		for i, block := range fence.FindAllStringSubmatch(string(read(t, page)), -1) {
			name := nameOf(page, i)
			switch {
			case clause.MatchString(block[1]) || !byAddress.MatchString(block[1]):
			case page == "rpc.md" || page == "errors.md": // tested where they stand; a mistake
			default:
				found++
				require.Contains(t, recipes, name, "a recipe that limits by address: add it to recipes")
				require.Equal(t, strings.Contains(block[1], "TrustProxies("), recipes[name].proxied, name)
			}
		}
	}
	for _, recipe := range recipes {
		if recipe.byUser {
			found++
		}
	}
	require.Equal(t, len(recipes), found)
}

// Nobody gets more by another address of his network, or by one that he makes
// up. Behind a proxy that the recipe names, clients don't share a bucket: who
// guesses at an account can't lock its owner out. Behind another the log says
// what to do.
func TestRecipesHoldBehindAProxyAndOverIPv6(t *testing.T) {
	t.Parallel()
	for name, recipe := range recipes {
		if recipe.byUser {
			continue
		}
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			addr := freeAddr(t)
			said := new(logtest.Buffer)
			serveTo(t, recipeCommand(t, name, addr), addr, said)
			c := &caller{t: t, path: recipe.path}
			direct := func(peer netip.Addr, forged string) int {
				return c.try("http://"+addr, http.Header{"Test-Peer": {netip.AddrPortFrom(peer, 1).String()}, "X-Forwarded-For": {forged}}, "wrong")
			}
			one := netip.MustParseAddr("192.0.2.1")
			limit := c.admitted(func(netip.Addr) int { return direct(one, "") }, one)
			require.Equal(t, limit, c.admitted(func(a netip.Addr) int { return direct(a, "") }, netip.MustParseAddr("2001:db8:1:2::1")), "addresses of one /64")
			two := netip.MustParseAddr("192.0.2.2")
			require.Equal(t, limit, c.admitted(func(a netip.Addr) int { return direct(two, a.String()) }, netip.MustParseAddr("203.0.113.0")), "made-up addresses")

			proxy := newProxy(t, addr)
			through := func(client netip.Addr, forged, password string) int {
				return c.try(proxy, http.Header{"Test-Client": {netip.AddrPortFrom(client, 1).String()}, "X-Forwarded-For": {forged}}, password)
			}
			guesser, owner := netip.MustParseAddr("198.51.100.1"), netip.MustParseAddr("198.51.100.2")
			require.Equal(t, limit, c.admitted(func(a netip.Addr) int { return through(guesser, a.String(), "wrong") }, netip.MustParseAddr("203.0.113.0")), "behind a proxy")
			if !recipe.proxied {
				require.Equal(t, http.StatusTooManyRequests, through(owner, "", "right"))
				require.Contains(t, said.String(), "RL701")
				return
			}
			for range limit {
				require.NotContains(t, []int{http.StatusTooManyRequests, http.StatusBadRequest}, through(owner, "", "right"), "the owner")
			}
			require.Equal(t, limit, c.admitted(func(a netip.Addr) int { return through(a, "", "wrong") }, netip.MustParseAddr("2001:db8:7:7::1")), "addresses of one /64 behind a proxy")
		})
	}
}

// newProxy starts a reverse proxy in front of addr, and returns its URL. A
// field tells which client it sees.
func newProxy(t *testing.T, addr string) string {
	t.Helper()
	target := &url.URL{Scheme: "http", Host: addr}
	proxy := &httputil.ReverseProxy{Rewrite: func(r *httputil.ProxyRequest) {
		r.SetURL(target)
		r.Out.Header["X-Forwarded-For"] = r.In.Header["X-Forwarded-For"] // nginx and most balancers append
		r.Out.Header.Del("Test-Client")
		r.SetXForwarded()
	}}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		r.RemoteAddr = r.Header.Get("Test-Client")
		proxy.ServeHTTP(w, r)
	}))
	t.Cleanup(server.Close)
	return server.URL
}

// caller sends requests of clients to a recipe.
type caller struct {
	t    *testing.T
	path string
}

func (c *caller) try(server string, header http.Header, password string) int {
	c.t.Helper()
	r, err := http.NewRequestWithContext(c.t.Context(), http.MethodPost, server+c.path, strings.NewReader(`{"user": "ann", "password": "`+password+`"}`))
	require.NoError(c.t, err)
	r.Header = header
	if header.Get("X-Forwarded-For") == "" {
		r.Header.Del("X-Forwarded-For")
	}
	resp, err := http.DefaultClient.Do(r)
	require.NoError(c.t, err)
	require.NoError(c.t, resp.Body.Close())
	return resp.StatusCode
}

// admitted returns how many requests are admitted until one is denied. Each
// comes from the next address.
func (c *caller) admitted(send func(netip.Addr) int, from netip.Addr) int {
	c.t.Helper()
	for n := range 1100 {
		if status := send(from); status == http.StatusTooManyRequests {
			return n
		}
		if from = from.Next(); n%200 == 199 && from.Is4() {
			from = netip.AddrFrom4([4]byte{203, 0, 113, 0})
		}
	}
	c.t.Fatal("1100 requests were admitted")
	return 0
}
