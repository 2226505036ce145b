package adminlimit_test

import (
	"fmt"
	escape "html"
	"net/http"
	"net/http/httptest"
	"net/url"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/tokenbucket-go/ratelimit/adminlimit"
	"github.com/tokenbucket-go/ratelimit/core"
	"github.com/tokenbucket-go/ratelimit/core/denied"
)

// The page begins with how bad it is: who is denied, by policy, what they have
// left, and when they pass again. Changes are apart from looking.
func TestThePageBeginsWithHowBadItIs(t *testing.T) {
	a := start(t, adminlimit.Writable())
	for range 9 {
		_, err := a.login.Allow(t.Context(), "user:ann")
		require.NoError(t, err)
	}
	_, page := a.send(t, http.MethodGet, "", "", html)
	_, rest, _ := strings.Cut(page, "<body>")
	for _, part := range []string{
		`<h2 id="denied">`, `<h3>login: <span class="bad">4 denied since \d\d:\d\d UTC</span></h3>`, `<code>user:ann</code></th><td data-label="Denied">4</td>`,
		`<svg class="bucket"`, `<span class="bad">denied: login is used up, next token in \d`, `value="peek"[^>]*>look up</button>`, `<strong>api</strong>: nobody\.`,
		`<h2 id="look">`, `value="peek">Look up</button>`, `<h2 id="change">`, `value="reset"`, `value="shadow-on"`, `value="reload"`, `<h2 id="exceptions">`, `<h2 id="policies">`,
		`<details><summary>version</summary><p class="dim">hash`,
	} {
		at := regexp.MustCompile(part).FindStringIndex(rest)
		require.NotNil(t, at, "%s is missing, or comes too early", part)
		rest = rest[at[1]:]
	}
	_, looking, _ := strings.Cut(page, `id="look"`)
	looking, _, _ = strings.Cut(looking, "</section>")
	assert.NotContains(t, looking, `value="reset"`, "who looks can't change by the next button")

	require.NoError(t, a.login.SetShadow(true))
	_, page = a.send(t, http.MethodGet, "", "", html)
	assert.Contains(t, page, ">on: denies nobody<")

	without := adminlimit.New(func(*http.Request) (string, bool) { return "ann", true }, adminlimit.Limiters(a.api))
	w := httptest.NewRecorder()
	without.ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/?format=html", nil))
	assert.Contains(t, w.Body.String(), "does not count who is denied")
	assert.NotContains(t, w.Body.String(), "nobody.", "what is not counted is not said to be nobody")
}

var verdict = regexp.MustCompile(`(?s)<div class="box" role="status">\s*<p>.*?<span class="(\w+)">(.*?)</span>(.*?)</div>`)

// look looks a key up, and returns how the page shows what it says, and the
// nearest keys.
func (a *app) look(t *testing.T, policy, key string) (class, says string, nearest []string) {
	t.Helper()
	_, page := a.send(t, http.MethodPost, "", url.Values{"action": {"peek"}, "policy": {policy}, "key": {key}}.Encode(), html)
	found := verdict.FindStringSubmatch(page)
	require.NotNil(t, found, page)
	for _, m := range regexp.MustCompile(`<button[^>]*><code>(.*?)</code></button>`).FindAllStringSubmatch(found[3], -1) {
		nearest = append(nearest, escape.UnescapeString(m[1]))
	}
	return found[1], found[2], nearest
}

// A key that the store does not have is no good news: the page shows it in
// grey, and names the nearest that it knows.
func TestAnUnknownKeyIsGrey(t *testing.T) {
	a := start(t)
	require.NoError(t, a.login.SetPolicy(core.Policy{
		Name: "login", Limits: a.login.Policy().Limits, Blocked: []string{"ip:192.0.2.66"}, Overrides: map[string][]core.Limit{"header:x-api-key:k-123": {core.PerHour(100).WithName("login")}},
	}))
	for range 7 {
		_, err := a.login.Allow(t.Context(), "ip:192.0.2.7")
		require.NoError(t, err)
	}
	for _, c := range []struct {
		key     string
		nearest []string
	}{
		{"ip:192.0.2.8", []string{"ip:192.0.2.7", "ip:192.0.2.66"}},
		{"192.0.2.7", []string{"ip:192.0.2.7", "ip:192.0.2.66"}},
		{"192.0.2.67", []string{"ip:192.0.2.66", "ip:192.0.2.7"}},
		{"header:x-api-key:k-132", []string{"header:x-api-key:k-123"}},
		{"k-123", []string{"header:x-api-key:k-123"}},
		{"header:x-api-key:zzzzz", nil}, {"user:somebody", nil}, {":", nil}, {strings.Repeat("1", 300), nil}, {"\xff\x00:", nil},
		{"header:x-api-key:k-123", nil}, // it is known
	} {
		class, says, nearest := a.look(t, "login", shownAs(c.key))
		assert.Equal(t, "unsure", class, "%q: %s", c.key, says)
		assert.Equal(t, c.nearest, nearest, "%q", c.key)
	}
	for key, want := range map[string]string{"ip:192.0.2.7": "bad", "ip:192.0.2.66": "bad"} {
		class, says, nearest := a.look(t, "login", key)
		assert.Equal(t, want, class, "%s: %s", key, says)
		assert.Empty(t, nearest)
	}
	_, err := a.login.Allow(t.Context(), "ip:192.0.2.9") // a token takes three minutes
	require.NoError(t, err)
	class, says, _ := a.look(t, "login", "ip:192.0.2.9")
	assert.Equal(t, "good", class, "the premise: a known key that passes is green: %s", says)
}

// shownAs is a key as a person gives it.
func shownAs(key string) string {
	if !utf8.ValidString(key) {
		return strconv.Quote(key)
	}
	return key
}

// Water in a bucket stands as high as the share of tokens that is left. A bucket
// that denies is closed.
func TestABucketIsDrawnAsItIs(t *testing.T) {
	a := start(t)
	water := regexp.MustCompile(`class="water" d="M[\d.]+ ([\d.]+)A[^"]*"/><path class="edge" d="M[\d.]+ ([\d.]+)V([\d.]+)Q[\d.]+ ([\d.]+) `)
	for left := 5; left >= 0; left-- {
		_, page := a.send(t, http.MethodPost, "", "action=peek&policy=login&key=user:ann", html)
		_, box, _ := strings.Cut(page, `<div class="box"`)
		box, _, _ = strings.Cut(box, "</table>")
		require.Contains(t, box, fmt.Sprintf("%d of 5", left))
		found := water.FindStringSubmatch(box)
		if left == 0 {
			assert.Nil(t, found, "an empty bucket has no water")
			assert.Contains(t, box, `class="lid"`)
		} else {
			assert.NotContains(t, box, `class="lid"`, "%d of 5", left)
			var top, rim, floor float64
			for i, v := range map[int]*float64{1: &top, 2: &rim, 4: &floor} {
				var err error
				*v, err = strconv.ParseFloat(found[i], 64)
				require.NoError(t, err)
			}
			assert.InDelta(t, float64(left)/5, (floor-top)/(floor-rim), 0.001, "%d of 5", left)
		}
		_, err := a.login.Allow(t.Context(), "user:ann")
		require.NoError(t, err)
	}
}

// However many keys are denied, a page looks few of them up.
func TestThePageLooksFewKeysUp(t *testing.T) {
	top := core.Must(denied.New())
	store := core.NewMemoryStore()
	var limiters []*core.Limiter
	for i := range 6 {
		l := core.Must(core.NewLimiter(store, core.Policy{Name: fmt.Sprintf("p%d", i), Limits: []core.Limit{core.PerDay(1)}}))
		limiters = append(limiters, l)
		for key := range 30 {
			top.Observe(t.Context(), core.Observation{Policy: l.Name(), Key: fmt.Sprintf("user:%d", key), Outcome: core.OutcomeDenied})
		}
	}
	page := func(top *denied.Top) string {
		w := httptest.NewRecorder()
		h := adminlimit.New(func(*http.Request) (string, bool) { return "ann", true }, adminlimit.Limiters(limiters...), adminlimit.WithDenied(top))
		h.ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/?format=html", nil))
		return w.Body.String()
	}
	text := page(top)
	assert.Equal(t, 20, strings.Count(text, `<svg class="bucket"`))
	assert.Equal(t, 6*20, strings.Count(text, ">look up</button>"), "the others can be looked up")

	hashed := core.Must(denied.New(denied.WithKeySecret(secret)))
	limiters = []*core.Limiter{core.Must(core.NewLimiter(store, core.Policy{Name: "p", Limits: []core.Limit{core.PerDay(1)}, Blocked: []string{"user:bob"}}))}
	for range 2 {
		hashed.Observe(t.Context(), core.Observation{Policy: "p", Key: "user:ann", Outcome: core.OutcomeDenied})
	}
	w := httptest.NewRecorder()
	r := httptest.NewRequest(http.MethodPost, "/?format=html", strings.NewReader("action=peek&policy=p&key=user:bib"))
	r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	adminlimit.New(func(*http.Request) (string, bool) { return "ann", true }, adminlimit.Limiters(limiters...), adminlimit.WithDenied(hashed)).ServeHTTP(w, r)
	require.Contains(t, w.Body.String(), `class="unsure"`)
	assert.NotContains(t, w.Body.String(), "user:bob", "where keys are hashes, no key is named")
	text = page(hashed)
	assert.Contains(t, text, "2 denied since")
	assert.NotContains(t, text, `<svg class="bucket"`, "hashes can't be looked up")
}
