package keyof_test

import (
	"context"
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/tokenbucket-go/ratelimit/core"
	"github.com/tokenbucket-go/ratelimit/core/keyof"
	"github.com/tokenbucket-go/ratelimit/httplimit"
)

type userKey struct{}

// Keys that are made by hand are those of requests, whatever the client sent.
func TestKeysAreThoseOfTheExtractors(t *testing.T) {
	for _, value := range []string{"k-123", "a:b", "50%", "ä", "with space", "sha256:x", string(make([]byte, 300))} {
		r := httptest.NewRequest(http.MethodPut, "/items/7", nil)
		r.Header.Set("X-Api-Key", value)
		r.Header.Set("Authorization", "Bearer  "+value)
		r.AddCookie(&http.Cookie{Name: "session", Value: "s-1"})
		r.URL.RawQuery = "q=" + queryEscape(value)
		r.SetPathValue("id", value)
		r.Pattern = "PUT /items/{id}"
		r.Host = "API.example.com"
		r = r.WithContext(context.WithValue(r.Context(), userKey{}, value))
		for name, pair := range map[string]struct {
			extract httplimit.KeyFunc
			make    func() (string, error)
		}{
			"header":                 {httplimit.ByHeader("x-api-key"), func() (string, error) { return keyof.Header("X-API-KEY", value) }},
			"authorization":          {httplimit.ByHeader("Authorization"), func() (string, error) { return keyof.Header("Authorization", "bearer "+value) }},
			"host":                   {httplimit.ByHeader("Host"), func() (string, error) { return keyof.Header("Host", "api.example.com") }},
			"query":                  {httplimit.ByQuery("q"), func() (string, error) { return keyof.Query("q", value) }},
			"param":                  {httplimit.ByParam("id"), func() (string, error) { return keyof.Param("id", value) }},
			"method":                 {httplimit.ByMethod(), func() (string, error) { return keyof.Method("PUT") }},
			"path":                   {httplimit.ByPath(), func() (string, error) { return keyof.Path("/items/7") }},
			"route":                  {httplimit.ByRoute(), func() (string, error) { return keyof.Route("/items/{id}") }},
			"route, with its method": {httplimit.ByRoute(), func() (string, error) { return keyof.Route("PUT /items/{id}") }},
			"value":                  {httplimit.ByContextValue(userKey{}), func() (string, error) { return keyof.ContextValue(userKey{}, value) }},
			"value by a name":        {httplimit.ByContextValue(userKey{}), func() (string, error) { return keyof.Value("keyof_test.userKey {}", value) }},
			"global":                 {httplimit.Global("all"), func() (string, error) { return keyof.Global("all") }},
			"cookie":                 {httplimit.ByCookie("session"), func() (string, error) { return keyof.Cookie("session", "s-1") }},
			"joined": {httplimit.Join(httplimit.ByHeader("X-Api-Key"), httplimit.ByRoute()), func() (string, error) {
				return keyof.Join(core.Must(keyof.Header("X-Api-Key", value)), core.Must(keyof.Route("/items/{id}"))), nil
			}},
		} {
			want, err := pair.extract(r)
			require.NoError(t, err, name)
			got, err := pair.make()
			require.NoError(t, err, name)
			assert.Equal(t, want, got, "%s of %.20q", name, value)
		}
	}
	for _, address := range []string{"192.0.2.1", "2001:db8:1:2:3::4", "::ffff:192.0.2.1"} {
		for _, options := range [][]core.IPOption{nil, {core.IPv6Prefix(48)}} {
			r := httptest.NewRequest(http.MethodGet, "/", nil)
			r.RemoteAddr = "[" + address + "]:1234"
			if address[0] == '1' {
				r.RemoteAddr = address + ":1234"
			}
			want, err := httplimit.ByIP(options...)(r)
			require.NoError(t, err)
			assert.Equal(t, want, core.Must(keyof.IP(address, options...)))
		}
	}
}

func queryEscape(s string) (escaped string) {
	for _, b := range []byte(s) {
		escaped += "%" + string("0123456789ABCDEF"[b>>4]) + string("0123456789ABCDEF"[b&15])
	}
	return escaped
}

func TestMistakesAreErrors(t *testing.T) {
	_, err := keyof.Header("X-Api-Key", "")
	require.ErrorIs(t, err, core.ErrNoKey)
	for _, key := range []func() (string, error){
		func() (string, error) { return keyof.Header("x api key", "v") },
		func() (string, error) { return keyof.IP("192.0.2") },
		func() (string, error) { return keyof.IP("192.0.2.1", core.IPv6Prefix(200)) },
		func() (string, error) { return keyof.Global("") },
		func() (string, error) { return keyof.ContextValue(nil, "v") },
	} {
		_, err := key()
		var mistake *core.ConfigError
		require.ErrorAs(t, err, &mistake)
	}
}
