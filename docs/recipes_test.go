package docs_test

import (
	"errors"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/netip"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/tokenbucket-go/ratelimit/internal/hostile"
	"github.com/tokenbucket-go/ratelimit/internal/logtest"
	"github.com/tokenbucket-go/ratelimit/internal/onebinary"
	"github.com/tokenbucket-go/ratelimit/internal/redistest"
)

// recipes are blocks of Go without a package clause that limit by the client's
// address, or by a user who was verified, with the path of a request.
var recipes = map[string]string{
	"readme_1":     "/login",
	"readme_3":     "/",
	"limits_4":     "/search",
	"middleware_2": "/login",
	"middleware_3": "/items", // by user
	"middleware_4": "/login",
}

// byAddress finds the blocks that limit by the client's address.
var byAddress = regexp.MustCompile(`\b(ByIP|PerIP|ClientIP)\(`)

// readers is what the reader of a recipe has: a login that admits the password
// "right".
const readers = `

import (
	"log"
	"net/http"

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

// buildRecipes compiles the recipes.
var buildRecipes = sync.OnceValues(func() (file string, err error) {
	set := onebinary.New("github.com/tokenbucket-go/ratelimit/docs", "_recipes")
	all, err := snippets()
	for _, s := range all {
		if recipes[s.name] != "" {
			addProgram(set, s.name, "package main"+readers, false)
			set.File(s.name, "recipe.go", "package "+s.name+recipeSource(s.text))
		}
	}
	policies := "policies:\n  - name: search\n    limits: [5/hour]\n"
	err = errors.Join(err, os.WriteFile(filepath.Join(buildDir, "policies.yaml"), []byte(policies), 0o600)) // where the program runs
	file = filepath.Join(buildDir, "recipes")
	return file, errors.Join(err, set.Build(file))
})

// perMinute finds limits that would get a token back while a test empties a
// bucket.
var perMinute = regexp.MustCompile(`core\.PerMinute\((\d+)\)`)

// recipeSource is the rest of a file that returns the handler of a block. It
// trusts the test's proxy instead of the reader's.
func recipeSource(block string) string {
	block = strings.ReplaceAll(here.Replace(block), `"10.0.0.7"`, `"127.0.0.1"`)
	block = perMinute.ReplaceAllString(block, "core.Per($1, 20*time.Hour)")
	serves := "r"
	if strings.Contains(block, "mux.Handle(") {
		serves = "mux"
	}
	body := "func recipe() http.Handler {\n" + block + "\treturn " + serves + "\n}\n"
	return importing(body) + body
}

// serveRecipe serves a recipe, with a Redis of its own, and returns its address
// and what it logs.
func serveRecipe(t *testing.T, name string) (addr string, said *logtest.Buffer) {
	t.Helper()
	file, err := buildRecipes()
	require.NoError(t, err)
	addr, said = freeAddr(t), new(logtest.Buffer)
	c := exec.Command(file)
	c.Dir, c.Env = buildDir, append(os.Environ(), "PROGRAM="+name, "ADDRESS="+addr, "REDIS_URL=redis://"+redistest.Start(t).Addr)
	serveTo(t, c, addr, said)
	return addr, said
}

// Each block that limits by address is in recipes. The page of gRPC and Connect
// is tested where its lines stand, and that of errors shows a mistake.
func TestEveryRecipeByAddressIsRun(t *testing.T) {
	all, err := snippets()
	require.NoError(t, err)
	found := map[string]bool{}
	for _, s := range all {
		found[s.name] = true
		if !clause.MatchString(s.text) && byAddress.MatchString(s.text) && s.page != "rpc.md" && s.page != "errors.md" {
			require.NotEmpty(t, recipes[s.name], "a recipe that limits by address: add %s to recipes", s.name)
		}
	}
	for name := range recipes {
		require.True(t, found[name], name)
	}
}

// Nobody gets more by another address of his network, or by one that he makes
// up. Behind a proxy that the recipe names, clients don't share a bucket: who
// guesses at an account can't lock its owner out. Behind another the log says
// what to do.
func TestRecipesHoldBehindAProxyAndOverIPv6(t *testing.T) {
	t.Parallel()
	all, err := snippets()
	require.NoError(t, err)
	for _, s := range all {
		if recipes[s.name] == "" || !byAddress.MatchString(s.text) {
			continue
		}
		t.Run(s.name, func(t *testing.T) {
			t.Parallel()
			addr, said := serveRecipe(t, s.name)
			c := &caller{t: t, path: recipes[s.name]}
			direct := func(peer netip.Addr, forged string) int {
				return c.try("http://"+addr, http.Header{"Test-Peer": {netip.AddrPortFrom(peer, 1).String()}, "X-Forwarded-For": {forged}}, "wrong")
			}
			one, two, made := netip.MustParseAddr("192.0.2.1"), netip.MustParseAddr("192.0.2.2"), netip.MustParseAddr("203.0.113.0")
			limit := c.admitted(func(netip.Addr) int { return direct(one, "") }, one)
			require.Equal(t, limit, c.admitted(func(a netip.Addr) int { return direct(a, "") }, netip.MustParseAddr("2001:db8:1:2::1")), "addresses of one /64")
			require.Equal(t, limit, c.admitted(func(a netip.Addr) int { return direct(two, a.String()) }, made), "made-up addresses")

			proxy := newProxy(t, addr)
			through := func(client netip.Addr, forged, password string) int {
				return c.try(proxy, http.Header{"Test-Client": {netip.AddrPortFrom(client, 1).String()}, "X-Forwarded-For": {forged}}, password)
			}
			guesser, owner := netip.MustParseAddr("198.51.100.1"), netip.MustParseAddr("198.51.100.2")
			require.Equal(t, limit, c.admitted(func(a netip.Addr) int { return through(guesser, a.String(), "wrong") }, made), "behind a proxy")
			if !strings.Contains(s.text, "TrustProxies(") {
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

// A client that makes up a key for each request passes nowhere, and is denied by
// its address if the program is a whole one. The examples test themselves.
func TestMadeUpKeysPassNowhere(t *testing.T) {
	t.Parallel()
	for name, program := range map[string]struct {
		method, path string
		address      bool // limits addresses in front
	}{
		"readme_3":          {http.MethodGet, "/", true},
		"middleware_3":      {http.MethodPost, "/items", false},
		"language_models_1": {http.MethodPost, "/generate", true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			addr := ""
			if recipes[name] != "" {
				addr, _ = serveRecipe(t, name)
			} else {
				addr = freeAddr(t)
				serve(t, command(t, name, addr), addr)
			}
			passed, denied := hostile.Guess(t, 200, func(key string) *http.Request {
				r := httptest.NewRequest(program.method, "http://"+addr+program.path, nil)
				r.Header.Set("X-Api-Key", key)
				r.Header.Set("Test-Peer", "192.0.2.1:1") // of a recipe: not its proxy
				return r
			}, send(t))
			require.Zero(t, passed)
			require.Equal(t, program.address, denied > 0)
		})
	}
}

// send returns a function that sends a request and returns the status of its
// answer.
func send(t *testing.T) func(*http.Request) int {
	c := hostile.Client(t, "127.0.0.1")
	return func(r *http.Request) int {
		r.RequestURI = ""
		resp, err := c.Do(r)
		require.NoError(t, err)
		require.NoError(t, resp.Body.Close())
		return resp.StatusCode
	}
}

// The login of a recipe gives a token back for the right password alone: the
// status is that of a redirect either way.
func TestTheRecipeOfALoginCountsFailures(t *testing.T) {
	t.Parallel()
	addr, _ := serveRecipe(t, "middleware_2")
	send := send(t)
	for i, password := range append(slices.Repeat([]string{"right"}, 10), slices.Repeat([]string{"wrong"}, 5)...) {
		require.Equal(t, http.StatusSeeOther, send(loginRequest(addr, password)), "attempt %d", i+1)
	}
	require.Equal(t, http.StatusTooManyRequests, send(loginRequest(addr, "right")))
}

func loginRequest(addr, password string) *http.Request {
	r := httptest.NewRequest(http.MethodPost, "http://"+addr+"/login", strings.NewReader("user=ann&password="+password))
	r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	return r
}

// The recipe by objects charges what a body is, before the work, and reads no
// more than its bound.
func TestTheRecipeByObjectsChargesEach(t *testing.T) {
	t.Parallel()
	addr, _ := serveRecipe(t, "middleware_3")
	send := send(t)
	list := func(n int) string { return "[" + strings.TrimSuffix(strings.Repeat(`{"id":1},`, n), ",") + "]" }
	for _, step := range []struct {
		key, body string
		want      int
	}{
		{"ann-secret", list(99), http.StatusOK},
		{"ann-secret", list(2), http.StatusTooManyRequests},
		{"ann-secret", list(1), http.StatusOK},
		{"ann-secret", list(0), http.StatusTooManyRequests}, // it costs one
		{"bob-secret", `[{"id":1},`, http.StatusBadRequest},
		{"bob-secret", `{}`, http.StatusBadRequest},
		{"bob-secret", list(10_000), http.StatusBadRequest},
		{"bob-secret", list(101), http.StatusTooManyRequests},
		{"made-up", list(1), http.StatusUnauthorized},
	} {
		r := httptest.NewRequest(http.MethodPost, "http://"+addr+"/items", strings.NewReader(step.body))
		r.Header.Set("X-Api-Key", step.key)
		require.Equal(t, step.want, send(r), step.body[:min(len(step.body), 20)])
	}
}
