package adminlimit_test

import (
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/tokenbucket-go/ratelimit/adminlimit"
	"github.com/tokenbucket-go/ratelimit/core"
	"github.com/tokenbucket-go/ratelimit/core/denied"
	"github.com/tokenbucket-go/ratelimit/internal/logtest"
)

// secret is what keys are hashed by in logs.
var secret = []byte("of every replica: random bytes")

const file = "- {name: api, limits: [60/min]}\n- {name: login, limits: [5/15m]}\n"

// app is an app with the handler on a real server.
type app struct {
	api, login *core.Limiter
	top        *denied.Top
	path       string // of the policy file, which has what is in force
	log        *logtest.Buffer
	server     *httptest.Server
}

// start starts an app. The user is what the header field X-User says; "nobody"
// is known and may not look.
func start(t *testing.T, options ...adminlimit.Option) *app {
	t.Helper()
	a := &app{top: core.Must(denied.New()), path: filepath.Join(t.TempDir(), "policies.yaml"), log: new(logtest.Buffer)}
	require.NoError(t, os.WriteFile(a.path, []byte(file), 0o600))
	store := core.NewMemoryStore()
	made := func(name string, limit core.Limit) *core.Limiter {
		return core.Must(core.NewLimiter(store, core.Policy{Name: name, Limits: []core.Limit{limit}}, core.WithObserver(a.top.Observe), core.WithKeySecret(secret)))
	}
	a.api, a.login = made("api", core.PerMinute(60)), made("login", core.Must(core.ParseLimit("5/15m")))
	options = append([]adminlimit.Option{
		adminlimit.Limiters(a.login, a.api), adminlimit.WithDenied(a.top), adminlimit.WithPolicyFile(a.path),
		adminlimit.WithLogger(slog.New(slog.NewTextHandler(a.log, nil))),
	}, options...)
	a.server = httptest.NewServer(adminlimit.New(func(r *http.Request) (string, bool) {
		who := r.Header.Get("X-User")
		return who, who != "nobody"
	}, options...))
	t.Cleanup(a.server.Close)
	return a
}

// send sends a request as ann, and returns the answer with its body. set may
// change the request.
func (a *app) send(t *testing.T, method, query, body string, set func(*http.Request)) (*http.Response, string) {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), method, a.server.URL+"/"+query, strings.NewReader(body))
	require.NoError(t, err)
	r.Header.Set("X-User", "ann")
	if body != "" {
		r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	}
	if set != nil {
		set(r)
	}
	resp, err := a.server.Client().Do(r)
	require.NoError(t, err)
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	require.NoError(t, err)
	return resp, string(text)
}

// post posts fields as ann, and returns the status and the JSON of the answer.
func (a *app) post(t *testing.T, fields ...string) (int, map[string]any) {
	t.Helper()
	form := url.Values{}
	for i := 0; i < len(fields); i += 2 {
		form.Add(fields[i], fields[i+1])
	}
	resp, text := a.send(t, http.MethodPost, "", form.Encode(), nil)
	var answer map[string]any
	require.NoError(t, json.Unmarshal([]byte(text), &answer), text)
	return resp.StatusCode, answer
}

// html asks for the page.
func html(r *http.Request) { r.Header.Set("Accept", "text/html,*/*;q=0.8") }

// Whoever is not let in learns nothing, whatever they ask: the answers to all
// requests are the same.
func TestOthersLearnNothing(t *testing.T) {
	a := start(t, adminlimit.Writable())
	for user, challenge := range map[string]string{"": "", "nobody": "", " ": ""} {
		first := ""
		for _, method := range []string{"GET", "HEAD", "POST", "PUT", "DELETE", "OPTIONS"} {
			for _, body := range []string{"", "action=peek&policy=api&key=k", "action=shadow-on&policy=api", "action=x"} {
				for _, query := range []string{"", "?format=json", "?format=x", "?%zz", "?key=k"} {
					resp, text := a.send(t, method, query, body, func(r *http.Request) { html(r); r.Header.Set("X-User", user) })
					if method != http.MethodHead {
						if first == "" {
							first = text
						}
						require.Equal(t, first, text, "the body says nothing of the request")
					}
					require.Equal(t, http.StatusForbidden, resp.StatusCode)
					require.Equal(t, challenge, resp.Header.Get("WWW-Authenticate"))
					require.Empty(t, resp.Header.Get("Allow"))
				}
			}
		}
		assert.Equal(t, "Forbidden\n", first)
	}
	assert.False(t, a.api.Policy().Shadow, "who is not let in changes nothing")
	assert.Empty(t, a.log.String())
}

func TestAChallengeMakesItUnauthorized(t *testing.T) {
	a := start(t, adminlimit.WithChallenge(`Basic realm="limits"`))
	resp, text := a.send(t, "GET", "", "", func(r *http.Request) { r.Header.Del("X-User") })
	assert.Equal(t, http.StatusUnauthorized, resp.StatusCode, "nobody is known")
	assert.Equal(t, `Basic realm="limits"`, resp.Header.Get("WWW-Authenticate"))
	assert.Equal(t, "Unauthorized\n", text)
	resp, text = a.send(t, "GET", "", "", func(r *http.Request) { r.Header.Set("X-User", "nobody") })
	assert.Equal(t, http.StatusForbidden, resp.StatusCode, "somebody is known, who may not")
	assert.Empty(t, resp.Header.Get("WWW-Authenticate"))
	assert.Equal(t, "Forbidden\n", text)
}

// A GET changes nothing, whatever its URL says, and neither does any method but
// POST.
func TestOnlyAPostChanges(t *testing.T) {
	a := start(t, adminlimit.Writable())
	require.NoError(t, os.WriteFile(a.path, []byte(strings.ReplaceAll(file, "60", "90")), 0o600))
	_, err := a.api.AllowN(t.Context(), "k", 60)
	require.NoError(t, err)
	for _, method := range []string{"GET", "HEAD", "PUT", "PATCH", "DELETE", "OPTIONS", "TRACE"} {
		for _, fields := range []string{"action=reset&policy=api&key=k", "action=shadow-on&policy=api", "action=reload"} {
			resp, _ := a.send(t, method, "?"+fields, fields, html)
			require.GreaterOrEqual(t, resp.StatusCode, 400, "%s %s", method, fields)
			resp, _ = a.send(t, method, "", fields, nil)
			if method == http.MethodGet || method == http.MethodHead {
				require.Equal(t, http.StatusOK, resp.StatusCode, "%s: a body of a GET counts for nothing", method)
				continue
			}
			require.Equal(t, http.StatusMethodNotAllowed, resp.StatusCode, method)
			require.Equal(t, "GET, HEAD, POST", resp.Header.Get("Allow"))
		}
	}
	res, err := a.api.Peek(t.Context(), "k")
	require.NoError(t, err)
	assert.Less(t, res.Remaining, int64(30), "the key was not reset")
	assert.EqualValues(t, 60, a.api.Capacity("k"), "the file was not read")
	assert.False(t, a.api.Policy().Shadow)
	assert.Empty(t, a.log.String())
}

// A form of another site is refused, as browsers tell where it comes from.
func TestFormsOfOtherSitesAreRefused(t *testing.T) {
	a := start(t, adminlimit.Writable())
	for _, from := range []struct {
		name, site, origin string
		passes             bool
	}{
		{"another site", "cross-site", "https://evil.example", false},
		{"another host of the site", "same-site", "https://app.example", false},
		{"an old browser at another site", "", "https://evil.example", false},
		{"a sandboxed frame", "", "null", false},
		{"the page", "same-origin", a.server.URL, true},
		{"an old browser on the page", "", a.server.URL, true},
		{"a program", "", "", true},
	} {
		for _, fields := range []string{"action=shadow-on&policy=api", "action=peek&policy=api&key=k"} {
			resp, _ := a.send(t, http.MethodPost, "", fields, func(r *http.Request) {
				for name, value := range map[string]string{"Sec-Fetch-Site": from.site, "Origin": from.origin} {
					if value != "" {
						r.Header.Set(name, value)
					}
				}
			})
			want := http.StatusForbidden
			if from.passes {
				want = http.StatusOK
			}
			assert.Equal(t, want, resp.StatusCode, "%s: %s", from.name, fields)
		}
		assert.Equal(t, from.passes, a.api.Policy().Shadow, from.name)
		require.NoError(t, a.api.SetShadow(false))
	}
}

// Unless the app says Writable, nothing changes, and the page shows no button
// that would.
func TestItIsReadOnlyByDefault(t *testing.T) {
	a := start(t)
	for _, action := range []string{"reset", "shadow-on", "shadow-off", "reload"} {
		status, answer := a.post(t, "action", action, "policy", "api", "key", "k")
		assert.Equal(t, http.StatusForbidden, status, action)
		assert.Equal(t, "this handler is read-only: it peeks, and changes nothing", answer["error"])
	}
	status, answer := a.post(t, "action", "peek", "policy", "api", "key", "k")
	assert.Equal(t, http.StatusOK, status, "a look changes nothing")
	assert.Equal(t, false, answer["writable"])
	_, page := a.send(t, "GET", "", "", html)
	for _, action := range []string{"reset", "shadow-on", "reload"} {
		assert.NotContains(t, page, `value="`+action)
	}
	_, page = start(t, adminlimit.Writable()).send(t, "GET", "", "", html)
	for _, action := range []string{"reset", "shadow-on", "reload"} {
		assert.Contains(t, page, `value="`+action, "the premise: this is how buttons look")
	}
}

func TestMistakesPanicTogether(t *testing.T) {
	a := start(t)
	defer func() {
		err, _ := recover().(error)
		require.Error(t, err, "New refuses mistakes")
		mistake := (*core.ConfigError)(nil)
		require.ErrorAs(t, err, &mistake, "each is a ConfigError")
		for _, want := range []string{
			"adminlimit.New authorise: <nil> must be a function", "adminlimit.New limiters[1]: <nil> must be a limiter", `limiters[2]: "api" is the policy of an earlier limiter`,
			`WithChallenge: "" must be`, `WithPolicyFile: "" must be the path`, `WithRedisStore: "main" has no store`, "WithDenied: <nil> must come from denied.New",
		} {
			assert.ErrorContains(t, err, want, "all mistakes are reported at once")
		}
	}()
	adminlimit.New(nil, nil, adminlimit.Limiters(a.api, nil, a.api), adminlimit.WithChallenge(""), adminlimit.WithPolicyFile(""),
		adminlimit.WithRedisStore("main", nil), adminlimit.WithDenied(nil))
}

func TestItNeedsALimiter(t *testing.T) {
	defer func() {
		assert.ErrorContains(t, recover().(error), "adminlimit.Limiters: \"\" is required", "a handler of nothing is a mistake")
	}()
	adminlimit.New(func(*http.Request) (string, bool) { return "ann", true }, adminlimit.Limiters())
}

// Bad parameters get their own words, and change nothing.
func TestBadParametersAreNamed(t *testing.T) {
	a := start(t, adminlimit.Writable())
	for _, c := range []struct {
		query, form string
		status      int
		want        string
	}{
		{"?top=0", "", 400, "top must be a number from 1 to 1000"},
		{"?top=1001", "", 400, "top must be a number"},
		{"?top=", "", 400, "top must be a number"},
		{"?top=1e2", "", 400, "top must be a number"},
		{"?format=xml", "", 400, "format must be html or json"},
		{"?a=%zz", "", 400, "the query of the URL can't be read"},
		{"?key=k", "", 400, "key must be in the form of a POST: servers log URLs"},
		{"?policy=api", "action=peek&key=k", 400, "policy must be in the form"},
		{"", "action=fly", 400, "action must be peek, reset, shadow-on, shadow-off or reload"},
		{"", "policy=api", 400, "action must be peek"},
		{"", "action=peek&action=reset&policy=api&key=k", 400, "action must be given once"},
		{"", "action=peek&policy=api&key=k&key=l", 400, "key must be given once"},
		{"", "action=peek&policy=api&user=k", 400, `"user" is no field`},
		{"", "action=peek&policy=%zz", 400, "the form can't be read"},
		{"", "action=peek&policy=none&key=k", 404, `no limiter has the policy "none"`},
		{"", "action=peek&policy=api", 400, core.ErrNoKey.Error()},
		{"", "action=reset&policy=api&key=", 400, core.ErrNoKey.Error()},
		{"", "action=peek&policy=api&key=" + strings.Repeat("k", 16<<10), 413, "the form has more than 16384 bytes"},
		{"", "action=shadow-on&policy=api&hash=0", 409, "the policy has changed since you looked at it"},
	} {
		method := http.MethodPost
		if c.form == "" {
			method = http.MethodGet
		}
		for _, accept := range []func(*http.Request){nil, html} {
			resp, text := a.send(t, method, c.query, c.form, accept)
			assert.Equal(t, c.status, resp.StatusCode, "%s %.40s", c.query, c.form)
			want := c.want
			if accept != nil && !strings.Contains(c.query, "format") {
				want = strings.NewReplacer("'", "&#39;", `"`, "&#34;").Replace(want)
			} else if !strings.HasPrefix(text, "<") {
				want = strings.ReplaceAll(want, `"`, `\"`)
			}
			assert.Contains(t, text, want, "%s %.40s", c.query, c.form)
		}
	}
	resp, text := a.send(t, http.MethodPost, "", `{"action": "reload"}`, func(r *http.Request) { r.Header.Set("Content-Type", "application/json") })
	assert.Equal(t, http.StatusUnsupportedMediaType, resp.StatusCode, text)
	assert.NotContains(t, a.log.String(), "changed by hand")
}

// The fields that keep the answer from caches, frames, scripts and other hosts
// are on every answer.
func TestEveryAnswerIsGuarded(t *testing.T) {
	a := start(t)
	for _, user := range []string{"", "nobody", "ann"} {
		for _, method := range []string{"GET", "POST", "PUT"} {
			resp, text := a.send(t, method, "", "action=peek&policy=api&key=k", func(r *http.Request) { html(r); r.Header.Set("X-User", user) })
			assert.Equal(t, "no-store", resp.Header.Get("Cache-Control"))
			assert.Equal(t, "nosniff", resp.Header.Get("X-Content-Type-Options"))
			assert.Regexp(t, `^default-src 'none'; style-src 'sha256-[^']{44}'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'$`,
				resp.Header.Get("Content-Security-Policy"))
			for _, never := range []string{"<script", "http://", "https://", " on" + "click", "style=", "<img", "<link"} {
				assert.NotContains(t, text, never, "the page has no scripts and asks nothing of other hosts")
			}
		}
	}
}

func TestWhatIsShownFollowsAccept(t *testing.T) {
	a := start(t)
	for accept, page := range map[string]bool{
		"": false, "*/*": false, "application/json": false, "text/html": true, "text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8": true,
	} {
		for query, forced := range map[string]any{"": nil, "?format=json": false, "?format=html": true} {
			resp, text := a.send(t, "GET", query, "", func(r *http.Request) { r.Header.Set("Accept", accept) })
			want := page
			if forced != nil {
				want = forced.(bool)
			}
			assert.Equal(t, want, strings.HasPrefix(text, "<!DOCTYPE html>"), "%q %s", accept, query)
			assert.Equal(t, want, resp.Header.Get("Content-Type") == "text/html; charset=utf-8")
			assert.Equal(t, !want, json.Valid([]byte(text)), fmt.Sprint(accept, query))
		}
	}
}
