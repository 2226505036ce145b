package adapter_test

import (
	"context"
	"encoding/base64"
	"math"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"

	"github.com/tokenbucket-go/ratelimit/core"
	"github.com/tokenbucket-go/ratelimit/core/adapter"
	"github.com/tokenbucket-go/ratelimit/core/middleware"
	"github.com/tokenbucket-go/ratelimit/httplimit"
)

type printed string

func (n printed) String() string { return string(n) }

// Types whose values all print the same, which keeps them out of logs.
type (
	email    string
	redacted string
	account  int64
)

func (email) String() string   { return "[redacted]" }
func (redacted) Error() string { return "[redacted]" }
func (account) String() string { return "[redacted]" }

type userKey struct{}

// asked is a request whose field, cookie, query or context has each of values.
func asked(kind, name string, values ...any) (requests []*request) {
	for _, v := range values {
		r := httptest.NewRequest(http.MethodGet, "/", nil)
		text, _ := v.(string)
		switch kind {
		case "header":
			r.Header.Set(name, text)
		case "cookie":
			r.Header.Set("Cookie", name+"="+text)
		case "query":
			r.URL.RawQuery = name + "=" + text
		case "value":
			r = r.WithContext(context.WithValue(r.Context(), userKey{}, v))
		}
		requests = append(requests, &request{r: r})
	}
	return requests
}

// An extractor makes one key of values that mean the same, and different keys
// of others.
func TestWhichRequestsShareAKey(t *testing.T) {
	authorization, token, user := adapter.ByHeader("Authorization"), adapter.ByHeader("Token"), adapter.ByHeader("User")
	long := strings.Repeat("x", 1000)
	for name, test := range map[string]struct {
		key      adapter.KeyFunc
		requests []*request
		shared   bool
	}{
		"any bytes": {
			user,
			asked("header", "User", "a", "b", "A", "a:b", "a%3Ab", "{a}", "%7Ba%7D", "ä", "a b", "sha256:x", long+"1", long+"2"),
			false,
		},
		"spellings of a scheme": {
			authorization,
			asked("header", "Authorization", "Bearer aB3", "bearer aB3", "bEARER   aB3", "Bearer \t aB3", "bearer\u00a0aB3"),
			true,
		},
		"credentials and schemes": {
			authorization,
			asked(
				"header", "Authorization", "Bearer aB3", "Bearer AB3", "Basic aB3", "aB3", "AB3", "Bearer aB3 c", "Bearer aB3  c",
			),
			false,
		},
		"Proxy-Authorization": {
			adapter.ByHeader("Proxy-Authorization"), asked("header", "Proxy-Authorization", "Basic aB3", "BASIC  aB3"), true,
		},
		"encodings of Basic": {authorization, asked("header", "Authorization", basics()...), true},
		"users and passwords": {
			authorization,
			asked(
				"header", "Authorization", "Basic "+inBase64("ann:1"), "Basic "+inBase64("ann:2"), "Basic "+inBase64("Ann:1"),
				"Bearer "+inBase64("ann:1"), "basic-key-1", "basic-key-2",
			),
			false,
		},
		"a token after a scheme":    {authorization, asked("header", "Authorization", tokens("Bearer ")...), true},
		"a token in another header": {token, asked("header", "Token", tokens("")...), true},
		"what only resembles a token": {
			token,
			asked(
				"header", "Token", "ab.cd.e1", "ab.cd.e2", "ab.cd.e2=", aToken+"AQ", aToken+"Ag", aToken+"AQ.AQ", aToken+"AR.AQ",
				"AQ", "AR",
			),
			false,
		},
		"a token in a cookie": {adapter.ByCookie("s"), asked("cookie", "s", tokens("")...), true},
		"a token in the query": {
			adapter.ByQuery("q"), asked("query", "q", append(tokens(""), aToken+"A%0AA", aToken+"AA==%0D%0A")...), true,
		},
		"texts and numbers": {
			adapter.ByContextValue(userKey{}), asked("value", "", "7", 7, int64(7), printed("7"), 7.0, float32(7), new("7")),
			true,
		},
		"values of the context": {
			adapter.ByContextValue(userKey{}),
			asked("value", "", "ann", "bob", 7, printed("carol"), int64(8), -7.0, float64(1<<53-1), float64(1<<53-2), float32(1<<24-1)), false,
		},
		"values that hide who it is": {
			adapter.ByContextValue(userKey{}),
			asked("value", "", email("ann"), email("bob"), account(7), account(8), redacted("carol")), false,
		},
		"a pointer and what it points to": {
			adapter.ByContextValue(userKey{}), asked("value", "", email("ann"), new(email("ann")), "ann"), true,
		},
	} {
		t.Run(name, func(t *testing.T) {
			keys := map[string]bool{}
			for _, r := range test.requests {
				key, err := test.key(r)
				assert.NoError(t, err)
				keys[key] = true
			}
			if want := len(test.requests); test.shared {
				assert.Len(t, keys, 1)
			} else {
				assert.Len(t, keys, want)
			}
		})
	}
}

// A key that can't be used is no reason to take another one.
func TestKeysThatCantBeUsed(t *testing.T) {
	twice := httptest.NewRequest(http.MethodGet, "/", nil)
	twice.Header = http.Header{"User": {"ann", "bob"}, "Authorization": {"basic YW5u OjE="}}
	empty := httptest.NewRequest(http.MethodGet, "/", nil)
	empty.Header = http.Header{"User": {"", "bob"}}
	for _, key := range []adapter.KeyFunc{
		adapter.ByHeader("User"), middleware.FirstOf[adapter.Request](adapter.ByHeader("User"), adapter.ByIP()),
		middleware.FirstOf[adapter.Request](adapter.ByHeader("Authorization"), adapter.ByIP()),
	} {
		_, err := key(&request{r: twice})
		assert.ErrorIs(t, err, core.ErrBadKey)
	}
	_, err := adapter.ByHeader("User")(&request{r: empty})
	assert.ErrorIs(t, err, core.ErrBadKey)
	for _, value := range []any{nil, "", (*printed)(nil)} {
		_, err := adapter.ByContextValue(userKey{})(asked("value", "", value)[0])
		assert.ErrorIs(t, err, core.ErrNoKey)
	}
	// Two users must not share a bucket because their numbers are one float.
	for _, value := range []any{
		float64(1 << 53), -float64(1 << 53), 1e300, 7.5, math.Inf(1), math.NaN(), float32(1 << 24),
	} {
		_, err := adapter.ByContextValue(userKey{})(asked("value", "", value)[0])
		assert.ErrorContains(t, err, "does not identify anybody", "%v (%T)", value, value)
	}
}

// Clients can't make up methods, and so keys.
func TestMethodsThatClientsMakeUp(t *testing.T) {
	for _, method := range []string{"get", "GeT", "PROPFIND", "OTHER", "M1"} {
		key, err := adapter.ByMethod()(&request{r: httptest.NewRequest(method, "/", nil)})
		assert.NoError(t, err)
		assert.Equal(t, "method:other", key, method)
	}
}

func TestMistakesInCostsByLength(t *testing.T) {
	mistakes := middleware.ArgumentError(adapter.CostByContentLengthOr(-1, 0))
	assert.ErrorContains(t, mistakes, "CostByContentLengthOr bytesPerToken: -1 must be")
	assert.ErrorContains(t, mistakes, "CostByContentLengthOr unknown: 0 must be")
}

// PerIP names its limit as it is written, also that of a zone with an odd
// name, and counts requests alone.
func TestPerIP(t *testing.T) {
	get := func(app http.Handler) *httptest.ResponseRecorder {
		w := httptest.NewRecorder()
		app.ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/", nil))
		return w
	}
	for _, zone := range []string{"Zürich", strings.Repeat("z", 200)} {
		day := core.PerDay(1).In(time.FixedZone(zone, 3600))
		assert.Contains(t, get(httplimit.PerIP(day)(http.NotFoundHandler())).Header().Get("RateLimit-Policy"), `"1/day in a zone"`)
	}
	two := httplimit.PerIP(core.PerDay(2))(httplimit.PerIP(core.PerDay(2))(http.NotFoundHandler()))
	for _, status := range []int{404, 404, 429} { // each has its own bucket
		assert.Equal(t, status, get(two).Code)
	}
	defer func() {
		mistake, _ := recover().(error)
		assert.ErrorContains(t, mistake, `PerIP limit.Unit: "bytes" is never counted here`)
	}()
	httplimit.PerIP(core.PerDay(2).WithUnit("bytes"))
}

func inBase64(s string) string { return base64.StdEncoding.EncodeToString([]byte(s)) }

// basics returns the spellings of one Basic credential that a check of
// net/http, echo or fiber takes.
func basics() (list []any) {
	const letters = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/"
	text := strings.TrimRight(inBase64("ann:secret"), "=") // ten bytes: four bits of the last letter are unused
	start, last := text[:len(text)-1], strings.IndexByte(letters, text[len(text)-1])
	for bits := range 16 {
		one := start + letters[last+bits:last+bits+1]
		list = append(list, "Basic "+one+"==", "bASIC \t "+one)
	}
	return append(list, "BasicX"+text+"==", "basic:"+text+"==")
}

// aToken is a JSON Web Token without its signature.
var aToken = base64.RawURLEncoding.EncodeToString([]byte(`{"alg":"HS256"}`)) + "." + base64.RawURLEncoding.EncodeToString([]byte(`{"sub":"ann"}`)) + "."

// tokens returns the spellings of one JSON Web Token after a prefix. One byte
// of signature leaves four bits unused.
func tokens(prefix string) (list []any) {
	for bits := range 16 {
		list = append(list, prefix+aToken+"A"+string(rune('A'+bits)))
	}
	return append(list, prefix+aToken+"AA==")
}

// An app whose middleware rewrites RemoteAddr by what a client sent installs the
// limiter in front of that.
func TestALimiterInFrontOfMiddlewareThatRewritesTheAddress(t *testing.T) {
	rewrites := func(next http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			r.RemoteAddr = r.Header.Get("X-Real-IP")
			next.ServeHTTP(w, r)
		})
	}
	ask := func(app http.Handler, realIP string) int {
		r := httptest.NewRequest(http.MethodGet, "/", nil)
		r.RemoteAddr = "10.0.0.1:1234"
		r.Header.Set("X-Forwarded-For", "203.0.113.5")
		r.Header.Set("X-Real-IP", realIP)
		w := httptest.NewRecorder()
		app.ServeHTTP(w, r)
		return w.Code
	}
	limited := func() func(http.Handler) http.Handler {
		return httplimit.PerIP(core.PerDay(1), core.TrustProxies("10.0.0.0/8"))
	}
	front := limited()(rewrites(http.NotFoundHandler()))
	assert.Equal(t, http.StatusNotFound, ask(front, "203.0.113.5"))
	assert.Equal(t, http.StatusTooManyRequests, ask(front, "198.51.100.9"), "clients choose no bucket")
	assert.Equal(t, http.StatusBadRequest, ask(rewrites(limited()(http.NotFoundHandler())), "203.0.113.5"), "behind it they could")
}
