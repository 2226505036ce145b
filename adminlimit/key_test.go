package adminlimit_test

import (
	"encoding/json"
	escape "html"
	"net/http"
	"net/url"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/tokenbucket-go/ratelimit/adminlimit"
)

var hostileKeys = []string{
	"user:\xff", "user:\xfe", "user:�", `user:\xff`, `"user:\xff"`, `"`, `""`, `"a"b"`, `'a'`, "`a`", "\xff", "a\u202eb", "a\tb", "a\u2028b", "a\nb", "a\r\nb",
	"a\x00b", "%ff", "a%20b", "a+b", "a b", "a  b", " a", "a ", " ", "a\u00a0b", "\ufeffa", "<b>&amp;", "\xff  \"", "\xed\xa0\x80", `\`, "a\u0301", "o'brien", "-x", "\u3164", "a\u200bb",
}

// asPasted is what a browser makes of text that someone copies from a page:
// white space is one space, and none at the ends.
func asPasted(text string) string {
	return strings.Join(strings.FieldsFunc(escape.UnescapeString(text), func(r rune) bool { return strings.ContainsRune(" \t\r\n", r) }), " ")
}

var (
	keyInCell  = regexp.MustCompile(`<th scope="row"><code>([^<]*)</code></th>`)
	keyInBox   = regexp.MustCompile(`<div class="box" role="status">\s*<p><code>([^<]*)</code> under`)
	keyOfDone  = regexp.MustCompile(`, key <code>([^<]*)</code>`)
	keyInForm  = regexp.MustCompile(`type="hidden" name="key" value="([^"]*)"`)
	keyInInput = regexp.MustCompile(`id="key" name="key"[^>]* value="([^"]*)"`)
	keyToReset = regexp.MustCompile(`<input name="key"[^>]* value="([^"]*)"`)
)

// What the page or JSON shows of a key means that key and no other: it resets
// that key's bucket alone.
func TestWhatIsShownOfAKeyCanBePastedBack(t *testing.T) {
	for _, key := range hostileKeys {
		a := start(t, adminlimit.Writable())
		for range 7 {
			for _, k := range hostileKeys {
				_, err := a.login.Allow(t.Context(), k)
				require.NoError(t, err)
			}
		}
		remaining := func(key string) int64 {
			res, err := a.login.Peek(t.Context(), key)
			require.NoError(t, err)
			return res.Remaining
		}
		form := func(action, key string) string {
			return url.Values{"action": {action}, "policy": {"login"}, "key": {key}}.Encode()
		}
		_, text := a.send(t, http.MethodGet, "?top=1000", "", nil)
		var state struct {
			Denied struct {
				Policies []struct{ Keys []struct{ Key string } }
			}
		}
		require.NoError(t, json.Unmarshal([]byte(text), &state))
		_, text = a.send(t, http.MethodGet, "?top=1000", "", html)
		var shown []string
		for _, k := range state.Denied.Policies[0].Keys {
			shown = append(shown, k.Key)
		}
		require.Len(t, shown, len(hostileKeys), "the premise: all are denied")
		cells, inputs := keyInCell.FindAllStringSubmatch(text, -1), keyInForm.FindAllStringSubmatch(text, -1)
		require.Len(t, cells, len(shown))
		require.Len(t, inputs, len(shown))
		at := -1
		for i, one := range shown {
			_, answer := a.post(t, "action", "peek", "policy", "login", "key", one)
			peek := answer["peek"].(map[string]any)
			require.Equal(t, one, peek["key"], "JSON shows the same again")
			require.EqualValues(t, 2, peek["denied"], "%q is listed, so it is the key", one)
			if peek["log_key"] == a.login.LogKey(key) {
				at = i
			}
		}
		require.GreaterOrEqual(t, at, 0, "JSON shows %q so that it can be given back", key)
		_, text = a.send(t, http.MethodPost, "", form("peek", shown[at]), html)
		box, input, change := keyInBox.FindStringSubmatch(text), keyInInput.FindStringSubmatch(text), keyToReset.FindStringSubmatch(text)
		require.NotNil(t, box, "%q", key)
		_, text = a.send(t, http.MethodPost, "", form("reset", shown[at]), html)
		done := keyOfDone.FindStringSubmatch(text)
		require.NotNil(t, done, "%q", key)
		for place, pasted := range map[string]string{
			"the list": cells[at][1], "the list's form": inputs[at][1], "the answer": box[1], "its form": input[1], "the form of changes": change[1], "what a reset did": done[1],
		} {
			require.NoError(t, a.login.Debit(t.Context(), key, 5))
			_, answer := a.post(t, "action", "reset", "policy", "login", "key", asPasted(pasted))
			require.NotNil(t, answer["done"], "%q from %s", key, place)
			assert.EqualValues(t, 5, remaining(key), "%q, shown as %s in %s", key, pasted, place)
		}
		for _, other := range hostileKeys {
			if other != key {
				assert.Zero(t, remaining(other), "a reset of %q left %q as it was", key, other)
			}
		}
	}
}

func TestAKeyInBadQuotesIsRefused(t *testing.T) {
	a := start(t, adminlimit.Writable())
	for _, action := range []string{"peek", "reset"} {
		for _, key := range []string{`"a"b"`, `"\q"`, `"\xf"`, "\"a\nb\""} {
			status, answer := a.post(t, "action", action, "policy", "login", "key", key)
			assert.Equal(t, http.StatusBadRequest, status, "%s of %q", action, key)
			assert.Contains(t, answer["error"], "in double quotes", "%s of %q", action, key)
			assert.Nil(t, answer["done"])
		}
	}
}

// A page whose name was rebound to this address sends its own name as Host, and
// its Origin is then not another site's.
func TestHosts(t *testing.T) {
	a := start(t, adminlimit.Writable(), adminlimit.Hosts("Admin.example.com", "127.0.0.1", "::1"))
	for host, served := range map[string]bool{
		"": true, "127.0.0.1": true, "127.0.0.1:8080": true, "admin.example.com": true, "ADMIN.example.com.:443": true, "[::1]": true, "[0:0::1]:80": true,
		"evil.example": false, "evil.example:80": false, "admin.example.com.evil.example": false, "x.admin.example.com": false, "localhost": false, "127.0.0.2": false,
		"127.0.0.1.evil.example": false,
	} {
		for _, method := range []string{http.MethodGet, http.MethodPost} {
			body := ""
			if method == http.MethodPost {
				body = "action=shadow-on&policy=login"
			}
			require.NoError(t, a.login.SetShadow(false))
			resp, text := a.send(t, method, "", body, func(r *http.Request) {
				if r.Host = host; host != "" && method == http.MethodPost {
					r.Header.Set("Origin", "http://"+host)
				}
			})
			if served {
				assert.Equal(t, http.StatusOK, resp.StatusCode, "%s %s", method, host)
				continue
			}
			assert.Equal(t, http.StatusMisdirectedRequest, resp.StatusCode, "%s %s", method, host)
			assert.Equal(t, "Misdirected Request\n", text, "it tells nothing")
			assert.False(t, a.login.Policy().Shadow, "nothing is changed")
		}
	}
	open := start(t)
	resp, _ := open.send(t, http.MethodGet, "", "", func(r *http.Request) { r.Host = "evil.example" })
	assert.Equal(t, http.StatusOK, resp.StatusCode, "the premise: without Hosts any host is served")
}

func TestMistakesInHosts(t *testing.T) {
	for _, names := range [][]string{nil, {""}, {"a:80"}, {"[::1]:80"}, {"*.example.com"}, {"http://a"}, {" a"}, {"a", "b:1"}} {
		assert.Panics(t, func() {
			start(t, adminlimit.Hosts(names...))
		}, "%q", names)
	}
}
