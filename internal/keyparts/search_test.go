package keyparts_test

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"pgregory.net/rapid"

	"github.com/tokenbucket-go/ratelimit/core"
	"github.com/tokenbucket-go/ratelimit/core/keyof"
	"github.com/tokenbucket-go/ratelimit/core/store"
	"github.com/tokenbucket-go/ratelimit/internal/keyparts"
)

// model is a key by what it was made of. It knows what a name means without
// reading the key.
type model struct {
	key    string   // as the app makes it
	values []value  // those that say who sends requests
	joined []*model // in order
	unsure bool     // an app's own part is a key of the scheme: it has two readings
}

type value struct{ of, text string }

// words are names of customers: each word of the scheme, and what text can
// hold.
var words = slices.Concat(kinds, []string{
	"x-api-key", "x-tenant", "user", "tenant", "other", "GET", "all", "bob", "bo", "bob2", "a:b", ":", "b", "50%", "%", "%3A", "%25", "a%3Ab", "{x}", "}", "Jürgen",
	"a\tb", "\u202ebob", "\xff", "-x", `"bob"`, " bob", "192.0.2.1", "2001:db8::1", "2001:db8::/64", "2001:db8::/32", "2001:db8:0:1::1", strings.Repeat("long", 50), "sha256:bob",
	"%sha256=" + strings.Repeat("0", 64),
}, twofold)

var kinds = []string{"ip", "header", "cookie", "query", "param", "value", "path", "route", "method", "global", "service", "tool", "subject", "session", "connection"}

// twofold are names that are keys of the scheme. An app's own key with one may
// be a join.
var twofold = []string{"ip:192.0.2.1", "header:x-api-key:bob", "ip%3A192.0.2.1", "path:/x"}

var addresses = []string{"192.0.2.1", "192.0.2.2", "2001:db8::1", "2001:db8::2", "2001:db8:0:1::1"}

// made draws a key of an extractor.
func made(t *rapid.T) *model {
	kind := rapid.SampledFrom(kinds).Draw(t, "kind")
	word := rapid.SampledFrom(words).Draw(t, "value")
	m := &model{values: []value{{kind, word}}}
	name := rapid.SampledFrom([]string{"x-api-key", "x-tenant", "header", "ip"}).Draw(t, "name")
	var err error
	switch kind {
	case "ip":
		address := rapid.SampledFrom(addresses).Draw(t, "address")
		m.key, err = keyof.IP(address)
		m.values[0].text = strings.TrimPrefix(m.key, "ip:")
	case "header":
		m.key, err = keyof.Header(name, word)
	case "cookie":
		m.key, err = keyof.Cookie(name, word)
	case "query":
		m.key, err = keyof.Query(name, word)
	case "param":
		m.key, err = keyof.Param(name, word)
	case "value":
		m.key, err = keyof.Value(name, word)
	case "path":
		m.key, err = keyof.Path("/" + word)
	case "route":
		m.key, err = keyof.Route("/" + word)
	case "method":
		m.key, err = keyof.Method(word)
	case "global":
		m.key, err = keyof.Global(word)
	default:
		m.key = core.JoinKey(kind, word)
	}
	if err != nil {
		t.Fatal(err)
	}
	switch kind {
	case "header", "cookie", "query", "param", "value":
		m.values[0].of += " " + name
	case "subject", "session", "connection":
	case "ip":
		return m
	default:
		m.values = nil
	}
	if len(kind)+1 == len(m.key)-len(word) && slices.Contains(twofold, word) { // one part alone follows the kind
		m.unsure = true
	}
	m.unsure = m.unsure || slices.Contains([]string{"global", "service", "tool", "subject", "session", "connection"}, kind) && slices.Contains(twofold, word)
	return m
}

// own draws a key of an app: its kind and values, or without a colon one value.
func own(t *rapid.T) *model {
	if rapid.Bool().Draw(t, "bare") {
		word := rapid.SampledFrom(words).Filter(func(w string) bool { return !strings.Contains(w, ":") }).Draw(t, "own")
		return &model{key: word, values: []value{{"", word}}, unsure: slices.Contains(twofold, word)}
	}
	kind := rapid.SampledFrom([]string{"user", "tenant", "other", "path", "subject"}).Draw(t, "own kind")
	parts := rapid.SliceOfN(rapid.SampledFrom(words), 1, 3).Filter(func(parts []string) bool { return len(parts) > 1 || !slices.Contains(kinds, kind) }).Draw(t, "own values")
	m := &model{key: core.JoinKey(append([]string{kind}, parts...)...)}
	for i, part := range parts {
		of := kind
		if len(parts) > 1 {
			of = fmt.Sprint(kind, " ", i+1)
		}
		m.values = append(m.values, value{of, part})
		m.unsure = m.unsure || slices.Contains(twofold, part)
	}
	return m
}

// draw draws a key.
func draw(t *rapid.T, depth int) *model {
	switch choice := rapid.IntRange(0, 4).Draw(t, "what"); {
	case choice < 2:
		return made(t)
	case choice < 3 || depth == 0:
		return own(t)
	}
	m := &model{}
	var keys []string
	n := rapid.IntRange(1, 3).Draw(t, "joined")
	for i := range n {
		part := draw(t, depth-1)
		if first := m.joined; n == 1 || i == 0 && len(part.joined) == 0 && !strings.Contains(part.key, ":") || i == 1 && !strings.Contains(first[0].key, ":") {
			part = made(t) // a join of own keys alone is read as one own key
		}
		m.joined, keys = append(m.joined, part), append(keys, part.key)
	}
	if word := rapid.SampledFrom(words).Draw(t, "front"); len(keys) > 0 && rapid.IntRange(0, 3).Draw(t, "in front") == 0 && !strings.Contains(word, ":") && strings.Contains(keys[0], ":") {
		if first := m.joined[0]; len(first.joined) == 0 && len(first.key) <= 128 { // see made above
			front, behind := &model{key: word, values: []value{{"", word}}, unsure: true}, made(t)
			m.joined, keys = append([]*model{front, behind}, m.joined...), append([]string{word, behind.key}, keys...)
		}
	}
	m.key = core.JoinKey(keys...)
	return m
}

// isUnsure reports whether the key has two readings, and can be seen.
func (m *model) isUnsure() bool {
	return len(m.joined) == 1 || m.unsure || slices.ContainsFunc(m.joined, (*model).isUnsure)
}

// seen returns what can be seen of a key that others join, or of a stored key:
// keys and values.
func (m *model) seen() (keys []string, values []value) {
	keys, values = []string{m.key}, m.values
	if len(m.key) > 128 {
		return keys, nil
	}
	for _, one := range m.joined {
		k, v := one.seen()
		keys, values = append(keys, k...), append(slices.Clone(values), v...)
	}
	return keys, values
}

// means reports whether a name means a stored key.
func (m *model) means(name string) bool {
	keys, values := m.seen()
	return slices.Contains(keys, name) || store.Key(m.key) == store.Key(name) && len(m.key) > 128 ||
		slices.ContainsFunc(values, func(v value) bool { return v.text == name || v.of == "ip" && within(name, v.text) })
}

// within reports whether an address is one of a network, whose text has /64, or
// both are that network.
func within(address, network string) bool {
	address = strings.TrimPrefix(address, "ip:")
	net, err := netip.ParsePrefix(network)
	if err != nil {
		return address == network
	}
	addr, err := netip.ParseAddr(address)
	return address == network || err == nil && net.Contains(addr)
}

// A name finds the keys that have it as a value or are it, and no others: no
// kind of a key, no name of a field, no part of a value. Where a key has two
// readings, both are found, and the search says that they may be of several
// customers.
func TestNamesMeanValuesAlone(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		for range 5 {
			m := draw(t, 2)
			keys, _ := m.seen()
			for _, name := range append(keys, words...) {
				search := keyparts.NewSearch(nil, name)
				found := search.Finds(store.Key(m.key))
				switch want := m.means(name); {
				case want && !found:
					t.Fatalf("%q means %q, and does not find it: %+v", name, m.key, keyparts.Of(m.key))
				case found && !want && (!m.isUnsure() || search.Several() == ""):
					t.Fatalf("%q finds %q, and does not mean it: %+v", name, m.key, keyparts.Of(m.key))
				}
			}
		}
	})
}

// A kind is shown where keys are hidden, and a customer never is.
func TestKindsAreThoseOfExtractors(t *testing.T) {
	for key, want := range map[string]string{
		"ip:192.0.2.1": "ip", "ip:bob": "", "header:x-api-key:bob": "header", "header:x api:bob": "", "bob": "", "bob:path%3A/x": "", "header:ip%3A192.0.2.1": "",
		"header:ip%3A192.0.2.1:path%3A/x": "", "path:a:b": "", "ip%3A192.0.2.1:path%3A/x": "", "path:/x": "path", "header": "", "header:": "", ":": "", "user:bob": "",
	} {
		assert.Equal(t, want, keyparts.Kind(key), key)
	}
}

// What core.JoinKey does not write is a value as it is.
func TestKeysThatNobodyJoined(t *testing.T) {
	assert.True(t, keyparts.NewSearch(nil, "%3A%").Finds("user:%3A%"))
	assert.False(t, keyparts.NewSearch(nil, ":%").Finds("user:%3A%"))
}

// A key that a client makes up costs no more than others, and no bytes of a key
// panic.
func TestMadeUpKeysCostLittle(t *testing.T) {
	for _, kind := range kinds {
		key := "x"
		for next := key; len(next) <= 128; next = core.JoinKey(kind, key) {
			key = next
		}
		search := keyparts.NewSearch(nil, "x")
		assert.Less(t, testing.AllocsPerRun(1, func() { search.Finds(key) }), 1000.0, "%s: what is done grows with a key's length, not by powers of two", kind)
	}
	rapid.Check(t, func(t *rapid.T) {
		key := rapid.OneOf(rapid.StringMatching(`((ip|tool|query|session|user|%3A|%25|%253A|:|%sha256=|a)){0,12}`), rapid.String()).Draw(t, "key")
		other := keyparts.Of(rapid.String().Draw(t, "other"))
		keyparts.NewSearch(nil, "a", key).Finds(key)
		keyparts.Of(key).Distance(other)
		keyparts.Of(key).Within(other)
	})
}
