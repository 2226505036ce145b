package keyparts_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"pgregory.net/rapid"

	"github.com/tokenbucket-go/ratelimit/cmd/ratelimit/internal/keyparts"
	"github.com/tokenbucket-go/ratelimit/core"
	"github.com/tokenbucket-go/ratelimit/core/keyof"
	"github.com/tokenbucket-go/ratelimit/core/store"
)

// A value finds the keys that have it as a whole, and no others: no kind of a
// key, no name of a field, no part of a value.
func TestKeysHaveTheirValuesAlone(t *testing.T) {
	long := strings.Repeat("long", 50)
	for _, test := range []struct {
		key      string
		has, not []string
	}{
		{"header:x-api-key:k-123", []string{"k-123", "header:x-api-key:k-123"}, []string{"header", "x-api-key", "k-12", "k-1234", "x-api-key:k-123"}},
		{"ip:192.0.2.7", []string{"192.0.2.7", "ip:192.0.2.7", "::ffff:192.0.2.7"}, []string{"ip", "192.0.2", "192.0.2.70", "192.0.2.0/24"}},
		{"ip:2001:db8::/64", []string{"2001:db8::1", "2001:db8::/64", "2001:0db8::/64"}, []string{"2001:db8:0:1::1", "2001:db8::/32"}},
		{core.JoinKey("header:x-api-key:k-123", "route:/items/{id}"), []string{"k-123", "header:x-api-key:k-123", "route:/items/{id}"}, []string{"route", "items"}},
		{core.JoinKey("ip:192.0.2.7", core.JoinKey("header:a:b", "path:/x")), []string{"192.0.2.7", "/x"}, []string{"a"}},
		{core.JoinKey("user", "acme", "7"), []string{"acme", "7"}, []string{"user", "acme:7"}},
		{core.JoinKey("user", "a:b"), []string{"a:b"}, []string{"user"}},
		{core.JoinKey("header:x-api-key:"+long, "path:/x"), []string{"/x"}, nil},
		{store.Key("user:" + long), []string{"user:" + long}, []string{long}},
		{core.JoinKey("user", long), []string{long}, nil},
		{"bob", []string{"bob"}, []string{"bo", ""}},
		{"header:x-api-key:50%25", []string{"50%"}, nil},
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
		{"header:x-api-key:ann", core.JoinKey("route:/items", "header:x-api-key:ann"), true, true},
		{"ann", "header:x-api-key:ann", true, true},
		{"user:ann", "value:user:ann", true, true},
		{"ip:2001:db8::1", "ip:2001:db8::/64", true, true},
		{"header:x-api-key:k-132", "header:x-api-key:k-123", false, true},
		{core.JoinKey("header:x-api-key:ann", "route:/items"), core.JoinKey("header:x-api-key:bob", "route:/items"), false, false},
		{"ip:192.0.2.7", "ip:192.0.2.8", false, false},
		{"route:/items", "route:/item", false, true},
		{"user:7", "user:8", false, false},
		{"k", "j", false, false},
		{"header:x-api-key:" + strings.Repeat("a", 65), "header:x-api-key:" + strings.Repeat("a", 66), false, false},
	} {
		a, b := keyparts.Of(test.a), keyparts.Of(test.b)
		assert.Equal(t, test.same, a.SameClient(b), "%s and %s are of one client", test.a, test.b)
		_, near := a.Distance(b)
		assert.Equal(t, test.near, near, "%s is near %s", test.a, test.b)
	}
}

// Whatever bytes values have, a joined key has each of them.
func TestJoinedKeysHaveAnyValue(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		value := rapid.StringMatching(`[ -~]{1,40}`).Draw(t, "value")
		header, err := keyof.Header("X-Api-Key", value)
		if err != nil {
			t.Skip()
		}
		path, _ := keyof.Path("/" + rapid.StringN(0, 40, 100).Draw(t, "path"))
		key := core.JoinKey(path, header)
		if !keyparts.Of(key).Has(value) || !keyparts.Of(key).SameClient(keyparts.Of(header)) {
			t.Fatalf("%q is not found in %q", value, key)
		}
	})
}
