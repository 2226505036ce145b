package adminlimit_test

import (
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"html"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/tokenbucket-go/ratelimit/adminlimit"
	"github.com/tokenbucket-go/ratelimit/core"
	"github.com/tokenbucket-go/ratelimit/internal/logtest"
)

const file = "- {name: api, limits: [60/min, 1000/day], plans: {pro: [600/min name api-1m]}}\n- {name: login, limits: [5/15m]}\n"

// app is an app whose page is on a real server.
type app struct {
	api, login *core.Limiter
	top        adminlimit.Top
	log        logtest.Buffer
	path       string // of the policy file, which has what is in force
	url        string
}

// start starts an app. The user is what the header field X-User says; "nobody"
// is known and may not look.
func start(t *testing.T, store core.Store, set func(*adminlimit.Config)) *app {
	t.Helper()
	a := &app{path: filepath.Join(t.TempDir(), "policies.yaml")}
	require.NoError(t, os.WriteFile(a.path, []byte(file), 0o600))
	made := func(p core.Policy) *core.Limiter {
		return core.Must(core.NewLimiter(store, p, core.WithObserver(a.top.Observe)))
	}
	a.api = made(core.Policy{
		Name: "api", Limits: []core.Limit{core.PerMinute(60), core.PerDay(1000)}, Plans: map[string][]core.Limit{"pro": {core.PerMinute(600).WithName("api-1m")}},
	})
	a.login = made(core.Policy{Name: "login", Limits: []core.Limit{core.Must(core.ParseLimit("5/15m"))}})
	c := adminlimit.Config{
		Limiters: []*core.Limiter{a.login, a.api}, Denied: &a.top, Writable: true, PolicyFile: a.path, Logger: slog.New(slog.NewTextHandler(&a.log, nil)),
	}
	if set != nil {
		set(&c)
	}
	server := httptest.NewServer(core.Must(adminlimit.New(func(r *http.Request) (string, bool) {
		who := r.Header.Get("X-User")
		return who, who != "nobody"
	}, c)))
	t.Cleanup(server.Close)
	a.url = server.URL
	return a
}

// send sends a request with header fields as ann, and returns the answer with
// its body.
func (a *app) send(t *testing.T, method string, form url.Values, fields map[string]string) (*http.Response, string) {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), method, a.url, strings.NewReader(form.Encode()))
	require.NoError(t, err)
	r.Header.Set("X-User", "ann")
	r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	for name, value := range fields {
		r.Header.Set(name, value)
	}
	if r.Host = r.Header.Get("Host"); r.Host == "" {
		r.Host = r.URL.Host
	}
	resp, err := http.DefaultClient.Do(r)
	require.NoError(t, err)
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	require.NoError(t, err)
	return resp, string(text)
}

func (a *app) get(t *testing.T) adminlimit.State {
	t.Helper()
	_, text := a.send(t, http.MethodGet, nil, nil)
	return decode(t, text)
}

// post posts fields, name after name and value, as ann.
func (a *app) post(t *testing.T, fields ...string) (status int, s adminlimit.State) {
	t.Helper()
	resp, text := a.send(t, http.MethodPost, form(fields...), nil)
	return resp.StatusCode, decode(t, text)
}

func form(fields ...string) url.Values {
	f := url.Values{}
	for i := 0; i < len(fields); i += 2 {
		f.Add(fields[i], fields[i+1])
	}
	return f
}

func decode(t *testing.T, text string) (s adminlimit.State) {
	t.Helper()
	require.NoError(t, json.Unmarshal([]byte(text), &s), text)
	return s
}

func deny(t *testing.T, l *core.Limiter, key string, times int) {
	t.Helper()
	_, err := l.AllowN(t.Context(), key, l.Limits(key)[0].Capacity)
	require.NoError(t, err)
	for range times {
		res, err := l.Allow(t.Context(), key)
		require.NoError(t, err)
		require.False(t, res.Allowed, "the premise")
	}
}

var asHTML = map[string]string{"Accept": "text/html,application/xhtml+xml,*/*;q=0.8"}

func TestAGetAnswersWithAPageOrJSON(t *testing.T) {
	a := start(t, core.NewMemoryStore(), nil)
	deny(t, a.login, "ip:192.0.2.1", 3)
	resp, page := a.send(t, http.MethodGet, nil, asHTML)
	assert.Equal(t, http.StatusOK, resp.StatusCode)
	assert.Equal(t, "text/html; charset=utf-8", resp.Header.Get("Content-Type"))
	assert.Equal(t, "no-store", resp.Header.Get("Cache-Control"))
	assert.NotContains(t, page, "<script", "the page needs none")
	style := regexp.MustCompile(`(?s)<style>(.*)</style>`).FindStringSubmatch(page)[1]
	sum := sha256.Sum256([]byte(style))
	policy := resp.Header.Get("Content-Security-Policy")
	assert.Contains(t, policy, "style-src 'sha256-"+base64.StdEncoding.EncodeToString(sum[:])+"'", "the browser applies this style alone")
	assert.Contains(t, policy, "default-src 'none'")
	assert.Contains(t, policy, "frame-ancestors 'none'")
	for _, want := range []string{"3 denied since", "ip:192.0.2.1", "60/min", "plan pro", "FailLocal", "turn on"} {
		assert.Contains(t, page, want)
	}

	resp, text := a.send(t, http.MethodGet, nil, nil)
	assert.Equal(t, "application/json", resp.Header.Get("Content-Type"))
	s := decode(t, text)
	assert.Equal(t, "ann", s.By)
	assert.Equal(t, []string{"look", "reset", "shadow-on", "shadow-off", "reload"}, s.Actions)
	require.Len(t, s.Denied, 1)
	assert.Equal(t, []any{"login", int64(3), "ip:192.0.2.1", int64(3)}, []any{s.Denied[0].Policy, s.Denied[0].Denied, s.Denied[0].Keys[0].Key, s.Denied[0].Keys[0].AtLeast})
	require.Len(t, s.InForce, 2)
	assert.Equal(t, adminlimit.Policy{
		Name: "api", Hash: s.InForce[0].Hash, Limits: []string{"60/min", "1000/day"}, Plans: map[string][]string{"pro": {"600/min name api-1m"}}, OnFailure: "FailLocal",
		Exceptions: []adminlimit.Exception{},
	}, s.InForce[0])
	a.url += "?format=json"
	_, again := a.send(t, http.MethodGet, nil, asHTML)
	assert.Equal(t, s.InForce, decode(t, again).InForce, "a browser gets JSON if its user asks for it")

	without := start(t, core.NewMemoryStore(), func(c *adminlimit.Config) { c.Denied = nil })
	assert.Nil(t, without.get(t).Denied)
	_, page = without.send(t, http.MethodGet, nil, asHTML)
	assert.Contains(t, page, "does not count who is denied")
	assert.NotNil(t, start(t, core.NewMemoryStore(), nil).get(t).Denied, "nobody is denied")
}

func TestTheHashDiffersIfThePolicyDoes(t *testing.T) {
	a := start(t, core.NewMemoryStore(), nil)
	seen := map[string]bool{a.get(t).InForce[1].Hash: true}
	for _, change := range []func(*core.Policy){
		func(p *core.Policy) { p.Limits[0].Capacity = 6 },
		func(p *core.Policy) { p.Overrides = map[string][]core.Limit{"user:ann": {core.PerDay(7)}} },
		func(p *core.Policy) { p.Blocked = []string{"user:bob"} },
	} {
		p := a.login.Policy()
		change(&p)
		require.NoError(t, a.login.SetPolicy(p))
		now := a.get(t).InForce[1]
		assert.False(t, seen[now.Hash], "%v", p)
		seen[now.Hash] = true
	}
	p := a.get(t).InForce[1]
	assert.Equal(t, []int{1, 1}, []int{p.Overrides, p.Blocked}, "keys are counted and not shown")
}

func TestOnlyWhoIsAuthorisedSeesOrChangesAnything(t *testing.T) {
	for name, test := range map[string]struct {
		user, challenge string
		status          int
	}{
		"nobody known":                  {"", "", http.StatusForbidden},
		"nobody known, with a password": {"", "Basic", http.StatusUnauthorized},
		"known, and not authorised":     {"nobody", "", http.StatusForbidden},
		"the same, with a password":     {"nobody", "Basic", http.StatusForbidden},
	} {
		a := start(t, core.NewMemoryStore(), func(c *adminlimit.Config) { c.Challenge = test.challenge })
		deny(t, a.login, "k", 1)
		for _, method := range []string{http.MethodGet, http.MethodPost, http.MethodDelete} {
			resp, text := a.send(t, method, form("action", "reset", "policy", "login", "key", "k"), map[string]string{"X-User": test.user})
			assert.Equal(t, test.status, resp.StatusCode, name)
			assert.Equal(t, http.StatusText(test.status)+"\n", text, name)
			assert.Equal(t, test.status == http.StatusUnauthorized, resp.Header.Get("WWW-Authenticate") != "", name)
		}
		res, err := a.login.Peek(t.Context(), "k")
		require.NoError(t, err)
		assert.Zero(t, res.Remaining, name)
	}
}

func TestFormsOfOtherSitesChangeNothing(t *testing.T) {
	a := start(t, core.NewMemoryStore(), nil)
	for name, test := range map[string]struct {
		fields map[string]string
		status int
	}{
		"another site":                 {map[string]string{"Sec-Fetch-Site": "cross-site"}, http.StatusForbidden},
		"another host of the site":     {map[string]string{"Sec-Fetch-Site": "same-site"}, http.StatusForbidden},
		"an old browser, another site": {map[string]string{"Origin": "https://evil.example"}, http.StatusForbidden},
		"a page without an origin":     {map[string]string{"Origin": "null"}, http.StatusForbidden},
		"the page itself":              {map[string]string{"Sec-Fetch-Site": "same-origin"}, http.StatusOK},
		"an old browser, the page":     {map[string]string{"Origin": a.url}, http.StatusOK},
		"no browser":                   {nil, http.StatusOK},
	} {
		resp, _ := a.send(t, http.MethodPost, form("action", "shadow-on", "policy", "login"), test.fields)
		assert.Equal(t, test.status, resp.StatusCode, name)
		assert.Equal(t, test.status == http.StatusOK, a.login.Policy().Shadow, name)
		a.post(t, "action", "shadow-off", "policy", "login")
	}
	resp, _ := a.send(t, http.MethodPut, nil, nil)
	assert.Equal(t, http.StatusMethodNotAllowed, resp.StatusCode)
	assert.Equal(t, "GET, HEAD, POST", resp.Header.Get("Allow"))
}

func TestOtherHostsAreNotServed(t *testing.T) {
	a := start(t, core.NewMemoryStore(), func(c *adminlimit.Config) { c.Hosts = []string{"localhost", "admin.example.com", "[2001:db8::1]"} })
	for host, status := range map[string]int{
		"localhost": 200, "localhost:8080": 200, "LocalHost": 200, "admin.example.com:443": 200, "[2001:db8::1]:80": 200, "[2001:db8::1]": 200,
		"evil.example": 421, "evil.example:8080": 421, "localhost.evil.example": 421, "127.0.0.1": 421, "admin.example.com.": 421, "[2001:db8::2]": 421,
	} {
		for _, method := range []string{http.MethodGet, http.MethodPost} {
			resp, text := a.send(t, method, form("action", "look", "policy", "login", "key", "k"), map[string]string{"Host": host})
			assert.Equal(t, status, resp.StatusCode, host)
			assert.Equal(t, status == 200, strings.Contains(text, "policies"), host)
		}
	}
}

var hostileKeys = []string{
	"user:\xff", "user:\xfe", "user:\ufffd", `user:\xff`, `"user:\xff"`, `"`, `""`, `"a"b"`, `'a'`, "`a`", "\xff", "a\u202eb", "a\tb", "a\u2028b", "a\nb", "a\r\nb",
	"a\x00b", "%ff", "a%20b", "a+b", "a b", "a  b", " a", "a ", " ", "a\u00a0b", "\ufeffa", "<b>&amp;", "\xff  \"", "\xed\xa0\x80", `\`, "a\u0301", "o'brien", "-x", "\u3164",
	"a\u200bb", "a\ufe0fb", "</code><script>alert(1)</script>", `" onfocus="alert(1)`, "{{.}}", "ключ",
}

// What JSON and the page show of a key means that key and no other: it finds
// that key's bucket alone.
func TestWhatIsShownOfAKeyIsThatKey(t *testing.T) {
	a := start(t, core.NewMemoryStore(), nil)
	for i, key := range hostileKeys {
		deny(t, a.login, key, i+1)
	}
	shown := a.get(t).Denied[0].Keys
	require.Len(t, shown, len(hostileKeys))
	_, page := a.send(t, http.MethodGet, nil, asHTML)
	for i, k := range shown {
		key := hostileKeys[len(hostileKeys)-1-i]
		assert.NotRegexp(t, `[\x00-\x1f\x7f-\x9f\x{a0}\x{200b}\x{202e}\x{2028}\x{3164}\x{fe0f}\x{feff}\x{fffd}]|^ | $|  `, k.Key, "each character can be seen")
		pasted := k.Key
		if i < 10 {
			pasted = html.UnescapeString(regexp.MustCompile(`<code>([^<]*)</code></th><td data-label="Denied">`).FindAllStringSubmatch(page, -1)[i][1])
		}
		for _, given := range []string{k.Key, pasted} {
			status, s := a.post(t, "action", "reset", "policy", "login", "key", given)
			require.Equal(t, http.StatusOK, status, "%q: %s", key, s.Error)
			assert.Equal(t, k.Key, s.Bucket.Key)
		}
		for j, other := range hostileKeys {
			res, err := a.login.Peek(t.Context(), other)
			require.NoError(t, err)
			assert.Equal(t, j >= len(hostileKeys)-1-i, res.Remaining == 5, "%q was reset, and %q", key, other)
		}
	}
	assert.NotContains(t, page, "<script")
	assert.NotContains(t, page, `" onfocus="`)
}

// What a browser sends from a page is what the page says, also in a field that
// nobody sees.
func TestThePageEscapesInEachPlace(t *testing.T) {
	a := start(t, core.NewMemoryStore(), nil)
	const evil = `"><script>alert(1)</script>'&` + "\u202e"
	for _, f := range []url.Values{
		form("action", "look", "policy", "login", "key", evil), form("action", "reset", "policy", "login", "key", evil),
		form("action", "look", "policy", evil, "key", evil), form("action", evil), form("action", "look", "policy", "api", "key", "k", "plan", evil),
	} {
		_, page := a.send(t, http.MethodPost, f, map[string]string{"Accept": "text/html", "X-User": "<u>\u202eann"})
		for _, never := range []string{"<script", "<u>", "\u202e"} {
			assert.NotContains(t, page, never, "%v", f)
		}
	}
}

func TestMistakesInTheConfigAreAllReported(t *testing.T) {
	l := core.Must(core.NewLimiter(core.NewMemoryStore(), core.Policy{Name: "api", Limits: []core.Limit{core.PerMinute(60)}}))
	anybody := func(*http.Request) (string, bool) { return "ann", true }
	_, err := adminlimit.New(nil, adminlimit.Config{Limiters: []*core.Limiter{l, nil, l}, Hosts: []string{"localhost:80", "[::1]"}})
	for _, want := range []string{"New authorise: <nil> must be a function", "Limiters[1]: <nil>", `Limiters[2]: "api" is the policy of an earlier limiter`, `Hosts: "localhost:80"`} {
		require.ErrorContains(t, err, want)
	}
	for _, host := range []string{"", "http://localhost", "a b", "ann@localhost", "*", "localhost:", "::1"} {
		_, err = adminlimit.New(anybody, adminlimit.Config{Limiters: []*core.Limiter{l}, Hosts: []string{host}})
		require.ErrorContains(t, err, "adminlimit.Config.Hosts", host)
	}
	_, err = adminlimit.New(anybody, adminlimit.Config{})
	require.ErrorContains(t, err, "adminlimit.Config.Limiters")
}
