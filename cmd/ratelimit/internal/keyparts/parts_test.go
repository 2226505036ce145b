package keyparts_test

import (
	"net/http"
	"net/url"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"pgregory.net/rapid"

	"github.com/tokenbucket-go/ratelimit/cmd/ratelimit/internal/keyparts"
	"github.com/tokenbucket-go/ratelimit/core"
	"github.com/tokenbucket-go/ratelimit/core/store"
	"github.com/tokenbucket-go/ratelimit/httplimit"
)

// A value finds the keys that have it as a whole, and no others: no kind of a
// key, no name of a field, no part of a value.
func TestKeysHaveTheirValuesAlone(t *testing.T) {
	long := strings.Repeat("long", 50)
	for _, test := range []struct {
		key      string
		has, not []string
	}{
		{"x-api-key:k-123", []string{"k-123", "x-api-key:k-123"}, []string{"x-api-key", "k-12", "k-1234"}},
		{"header:ip:192.0.2.7", []string{"192.0.2.7"}, []string{"header", "ip"}},
		{"cookie:session:a", []string{"a"}, []string{"cookie", "session", "session:a"}},
		{"ip:192.0.2.7", []string{"192.0.2.7", "ip:192.0.2.7", "::ffff:192.0.2.7"}, []string{"ip", "192.0.2", "192.0.2.70", "192.0.2.0/24"}},
		{"ip:2001:db8::/64", []string{"2001:db8::1", "2001:db8::/64", "2001:0db8::/64"}, []string{"2001:db8:0:1::1", "2001:db8::/32", "2001", "db8"}},
		{"x-api-key:k-123|route:/items/{id}", []string{"k-123", "x-api-key:k-123", "route:/items/{id}"}, []string{"route", "items"}},
		{"ip:192.0.2.7|%=x-api-key:b%7Cpath:/x", []string{"192.0.2.7", "b", "/x", "path:/x"}, []string{"a"}},
		{"ip:192.0.2.7|%=" + store.Key(long+long+long), []string{long + long + long}, []string{long}},
		{core.JoinKey("user", "acme", "7"), []string{"acme", "7", "acme:7"}, []string{"user", "me"}},
		{core.JoinKey("user", "a:b"), []string{"a:b"}, []string{"user", "a"}},
		{"x-api-key:" + core.JoinKey(long) + "|path:/x", []string{"/x", long}, nil},
		{store.Key("user:" + long), []string{"user:" + long}, []string{long}},
		{core.JoinKey("user", long), []string{long}, nil},
		{"bob", []string{"bob"}, []string{"bo", ""}},
		{"x-api-key:50%25", []string{"50%"}, nil},
		{"x-api-key:%253A", []string{"%3A"}, []string{":"}},
	} {
		for _, text := range test.has {
			assert.True(t, keyparts.Of(test.key).Has(text), "%s has %s", test.key, text)
		}
		for _, text := range test.not {
			assert.False(t, keyparts.Of(test.key).Has(text), "%s has not %s", test.key, text)
		}
	}
}

// A key of the same client is found also if it is joined with what a request
// asks for, made of another field, or misspelt in a few letters.
func TestKeysOfTheSameClient(t *testing.T) {
	for _, test := range []struct {
		a, b       string
		same, near bool
	}{
		{"x-api-key:ann", "route:/items|x-api-key:ann", true, true},
		{"ann", "x-api-key:ann", true, true},
		{"header:x-api-key:ann", "x-api-key:ann", true, true},
		{"user:ann", "value:user:ann", true, true},
		{"ip:2001:db8::1", "ip:2001:db8::/64", true, true},
		{"x-api-key:k-132", "x-api-key:k-123", false, true},
		{"x-api-key:ann|route:/items", "x-api-key:bob|route:/items", false, false},
		{"ip:192.0.2.7", "ip:192.0.2.8", false, false},
		{"route:/items", "route:/item", false, true},
		{"user:7", "user:8", false, false},
		{"k", "j", false, false},
		{"x-api-key:" + strings.Repeat("a", 65), "x-api-key:" + strings.Repeat("a", 66), false, false},
	} {
		a, b := keyparts.Of(test.a), keyparts.Of(test.b)
		assert.Equal(t, test.same, a.SameClient(b), "%s and %s are of one client", test.a, test.b)
		_, near := a.Distance(b)
		assert.Equal(t, test.near, near, "%s is near %s", test.a, test.b)
	}
}

// Whatever bytes values have, a joined key has each of them.
func TestJoinedKeysHaveAnyValue(t *testing.T) {
	byPathAndKey := httplimit.Join(httplimit.ByPath(), httplimit.ByHeader("X-Api-Key"))
	rapid.Check(t, func(t *rapid.T) {
		value := rapid.StringMatching(`[ -~]{1,200}`).Draw(t, "value")
		path := "/" + rapid.StringN(0, 40, 100).Draw(t, "path")
		r := &http.Request{URL: &url.URL{Path: path}, Header: http.Header{"X-Api-Key": {value}}}
		header, err := httplimit.ByHeader("X-Api-Key")(r)
		if err != nil {
			t.Fatal(err)
		}
		key, err := byPathAndKey(r)
		if err != nil {
			t.Fatal(err)
		}
		if p := keyparts.Of(key); !p.Has(value) || !p.Has(path) || !p.SameClient(keyparts.Of(header)) {
			t.Fatalf("%q and %q are not found in %q", value, path, key)
		}
	})
}
