package keyparts_test

import (
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/tokenbucket-go/ratelimit/core"
	"github.com/tokenbucket-go/ratelimit/core/store"
	"github.com/tokenbucket-go/ratelimit/internal/keyparts"
)

// What a name finds is of one customer unless one of these rules says that it
// may not be.
func TestWhatIsOfSeveralCustomersIsSaid(t *testing.T) {
	joined := func(keys ...string) string { return core.JoinKey(keys...) }
	hash := func(key string) string {
		return map[string]string{"header:x-api-key:bob": "0123456789ab"}[key]
	}
	for rule, c := range map[string]struct {
		names []string
		keys  []string
		why   string
	}{
		"one thing":                      {[]string{"bob"}, []string{"header:x-api-key:bob", joined("header:x-api-key:bob", "path:/x"), joined("header:x-api-key:bob", "path:/y")}, ""},
		"two things":                     {[]string{"bob"}, []string{"header:x-api-key:bob", "value:user:bob"}, "one name stands for header x-api-key and value user"},
		"two things in one key":          {[]string{"bob"}, []string{"header:x-api-key:bob", joined("header:x-api-key:bob", "value:user:bob")}, ""},
		"a key of one's own":             {[]string{"bob"}, []string{"bob", "user:bob"}, "one name stands for a whole key of your own and user"},
		"a key and a value":              {[]string{"ip:192.0.2.1"}, []string{"ip:192.0.2.1", "header:x-api-key:ip%3A192.0.2.1"}, "one name stands for header x-api-key and ip"},
		"two names":                      {[]string{"ip:192.0.2.1", "bob"}, []string{"ip:192.0.2.1", "value:user:bob", joined("ip:192.0.2.1", "value:user:bob")}, ""},
		"a tenant's users":               {[]string{"acme"}, []string{"user:acme:ann", "user:acme:bob"}, "they differ in user 2"},
		"one user of a tenant":           {[]string{"acme"}, []string{"user:acme:ann", "tenant:acme"}, "one name stands for tenant and user 1"},
		"an address of several users":    {[]string{"192.0.2.1"}, []string{joined("ip:192.0.2.1", "user:ann"), joined("ip:192.0.2.1", "user:bob")}, "they differ in user"},
		"what is asked for":              {[]string{"path:/x"}, []string{"path:/x"}, "one key is everybody's, as that of a path"},
		"what is asked for, by several":  {[]string{"path:/x"}, []string{joined("user:ann", "path:/x"), joined("user:bob", "path:/x")}, "they differ in user"},
		"a first part of two meanings":   {[]string{"bob"}, []string{joined("bob", "path:/x")}, "one key has two readings, because its first part may be a kind"},
		"a network":                      {[]string{"2001:db8::1"}, []string{"ip:2001:db8::/64", "ip:2001:db8::/48"}, ""},
		"the hash of the log":            {[]string{"0123456789ab"}, []string{"header:x-api-key:bob"}, ""},
		"the hash of the log and a name": {[]string{"0123456789ab"}, []string{"header:x-api-key:bob", "user:0123456789ab"}, "one name stands for a key and user"},
	} {
		search := keyparts.NewSearch(hash, c.names...)
		for _, key := range c.keys {
			assert.True(t, search.Finds(key), "%s: %s is found", rule, key)
			assert.True(t, search.Finds(key), "%s: SCAN may return a key twice", rule)
		}
		assert.Equal(t, c.why, search.Several(), rule)
	}
	search := keyparts.NewSearch(nil, "user", "bob")
	for _, key := range []string{"user:ann", joined("user:ann", "path:/x"), store.Key(joined(string(make([]byte, 129)), "x", string(make([]byte, 200)))), joined(joined("a:b", string(make([]byte, 127))), "x")} {
		assert.False(t, search.Finds(key), key)
	}
	assert.Equal(t, []int{1, 2}, []int{search.Kinds, search.Hashed}, "what nobody can find by a value is counted")
	assert.Empty(t, search.Several(), "nothing is found")
}

// A key is near another one by what follows its kind.
func TestKeysAreNearByTheirValues(t *testing.T) {
	for _, c := range []struct {
		given, other string
		near         bool
	}{
		{"header:x-api-key:abuser", "header:x-api-key:k-123", false},
		{"abuser", "k-123", false},
		{"header:x-api-key:k-124", "header:x-api-key:k-123", true},
		{"k-124", "header:x-api-key:k-123", true},
		{"heder:k-124", "header:x-api-key:k-123", true},
		{"ip:192.0.2.1", "ip:192.0.2.7", true},
		{"ip:192.0.2.1", "ip:10.9.8.7", false},
		{"user:acme:bobb", "user:acme:bob", true},
		{"user:acme:bobb", "user:acme:ann", false},
		{"user:a", "user:b", false},
		{"route:/itms/{id}", "route:/items/{id}", true},
		{"route:/itms/{id}", core.JoinKey("route:/items/{id}", "user:bob"), false},
	} {
		_, near := keyparts.Of(c.given).Distance(keyparts.Of(c.other))
		assert.Equal(t, c.near, near, "%s for %s", c.given, c.other)
	}
	for given, other := range map[string]string{
		"bob": "header:x-api-key:bob", "hedr:x:bob": "hedr:x:bob", "ip:2001:db8::1": "ip:2001:db8::/64", "ip:192.0.2.1": core.JoinKey("ip:192.0.2.1", "path:/x"),
	} {
		assert.True(t, keyparts.Of(given).Within(keyparts.Of(other)), "%s in %s", given, other)
	}
	assert.False(t, keyparts.Of("user:acme:ann").Within(keyparts.Of("user:acme:bob")))
	assert.False(t, keyparts.Of("path:/x").Within(keyparts.Of(core.JoinKey("user:bob", "path:/x"))), "what is asked for is no client")
}
