package adapter_test

import (
	"maps"
	"net/netip"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/tokenbucket-go/ratelimit/core"
	"github.com/tokenbucket-go/ratelimit/core/adapter"
	"github.com/tokenbucket-go/ratelimit/core/middleware"
)

// everywhere is a request that has one value, or one of each field, in every
// place.
type everywhere struct {
	adapter.Request // for the other methods; nil

	value  string
	fields map[string]string // by name, in place of value
	addr   netip.Addr
}

func (e everywhere) of(name string) string {
	if e.fields != nil {
		return e.fields[name]
	}
	return e.value
}

func (e everywhere) Header(name string) []string      { return []string{e.of(name)} }
func (e everywhere) Cookie(name string) string        { return e.of(name) }
func (e everywhere) Query(name string) string         { return e.of(name) }
func (e everywhere) Param(name string) string         { return e.of(name) }
func (e everywhere) Value(any) any                    { return e.value }
func (e everywhere) Method() string                   { return e.value }
func (e everywhere) Path() string                     { return e.value }
func (e everywhere) Route() (string, bool)            { return e.value, true }
func (e everywhere) RemoteIP() netip.Addr             { return e.addr }
func (e everywhere) SetDecision(*middleware.Decision) {}
func (e everywhere) Decision() *middleware.Decision   { return nil }
func (e everywhere) key(t require.TestingT, f adapter.KeyFunc) string {
	key, err := f(e)
	require.NoError(t, err)
	return key
}

func join(keys ...adapter.KeyFunc) adapter.KeyFunc { return middleware.Join[adapter.Request](keys...) }
func firstOf(keys ...adapter.KeyFunc) adapter.KeyFunc {
	return middleware.FirstOf[adapter.Request](keys...)
}

func TestKeysReadAsPeopleWriteThem(t *testing.T) {
	type user struct{}
	raw := func(key string) adapter.KeyFunc { return func(adapter.Request) (string, error) { return key, nil } }
	route, header := adapter.ByRoute(""), adapter.ByHeader("X-Api-Key")
	for _, c := range []struct {
		extractor adapter.KeyFunc
		value     string
		want      string
	}{
		{header, "ann", "x-api-key:ann"},
		{header, "ip:192.0.2.1", "x-api-key:ip:192.0.2.1"},
		{header, "100%|a", "x-api-key:100%25%7Ca"},
		{adapter.ByHeader("Authorization"), "Basic YW5uOjE", "authorization:basic YW5uOjE="},
		{adapter.ByHeader("Authorization"), "BEARER  t-1", "authorization:bearer t-1"},
		{adapter.ByHeader("Host"), "API.example.com", "host:api.example.com"},
		{adapter.ByHeader("A|%"), "b", "a%7C%25:b"},
		{adapter.ByHeader("IP"), "192.0.2.1", "header:ip:192.0.2.1"},
		{adapter.ByHeader("Route"), "/x", "header:route:/x"},
		{adapter.ByHeader("Header"), "a", "header:header:a"},
		{adapter.ByHeader("Service"), "a", "header:service:a"},
		{adapter.ByHeader("User"), "ann", "user:ann"},
		{adapter.ByCookie("Session"), "a:b", "cookie:Session:a:b"},
		{adapter.ByQuery("a:b"), "c", "query:a%3Ab:c"},
		{adapter.ByParam("id"), "7", "param:id:7"},
		{adapter.ByMethod(), "GET", "method:GET"},
		{adapter.ByMethod(), "FIND", "method:other"},
		{adapter.ByPath(), "/a:b", "path:/a:b"},
		{adapter.ByPath(), "", "path:/"},
		{route, "/items/:id", "route:/items/:id"},
		{route, "", "route:"},
		{adapter.ByContextValue("user"), "7", "value:user:7"},
		{adapter.ByContextValue(user{}), "7", "value:adapter_test.user {}:7"},
		{adapter.Global("all"), "", "global:all"},
		{header, strings.Repeat("x", 128), "x-api-key:" + strings.Repeat("x", 128)},
		{header, strings.Repeat("x", 129), "x-api-key:%sha256=…"},

		{join(route, header), "/a:b", "route:/a:b|x-api-key:/a:b"},
		{join(header), "ann", "x-api-key:ann"},
		{join(header, route), "50%", "x-api-key:50%25|route:50%25"},
		{join(raw(core.JoinKey("user", "a:b|c")), header), "ann", "user:a%3Ab%7Cc|x-api-key:ann"},
		{join(raw("ann"), header), "ann", "ann|x-api-key:ann"},
		{join(raw("ann|ip:192.0.2.1"), header), "ann", "%=ann%7Cip:192.0.2.1|x-api-key:ann"},
		{join(raw("50%"), header), "ann", "%=50%25|x-api-key:ann"},
		{join(join(route, header), header), "/", "%=route:/%7Cx-api-key:/|x-api-key:/"},
		{firstOf(header, route), "ann", "x-api-key:ann"},
	} {
		got := everywhere{value: c.value}.key(t, c.extractor)
		if before, _, long := strings.Cut(c.want, "%sha256="); long {
			assert.Regexp(t, "^"+before+"%sha256=[0-9a-f]{64}$", got)
			continue
		}
		assert.Equal(t, c.want, got)
	}
	for addr, want := range map[string]string{
		"192.0.2.1": "ip:192.0.2.1", "2001:db8::1": "ip:2001:db8::/64", "fe80::1%eth0": "ip:fe80::/64",
	} {
		assert.Equal(t, want, everywhere{fields: map[string]string{}, addr: netip.MustParseAddr(addr)}.key(t, adapter.ByIP()))
	}
}

// hostile are texts that could be taken for something that keys are made of.
func hostile() *rapid.Generator[string] {
	pieces := rapid.SampledFrom([]string{
		"a", ":", "|", "%", "%7C", "%7c", "%25", "%3A", "%3a", "%=", "%=sha256:", "%sha256=",
		"sha256:", "=", "25", "7C", "{", "}", "\x00", "\xff", "ip", "route", "header", "value", "user", "x-api-key",
		"ann|ip:192.0.2.1", strings.Repeat("x", 128), strings.Repeat("|", 100),
	})
	short := rapid.Map(rapid.SliceOfN(pieces, 1, 5), func(p []string) string { return strings.Join(p, "") })
	return rapid.OneOf(short, short, rapid.Map(rapid.SliceOfN(rapid.Byte(), 1, 6), func(b []byte) string { return string(b) }))
}

// Whatever values clients send, two extractors, two names or two values never
// make the same key.
func TestExtractorsNeverShareAKey(t *testing.T) {
	type user struct{}
	extractors := map[string]adapter.KeyFunc{
		"path": adapter.ByPath(), "route": adapter.ByRoute(""),
		"value user": adapter.ByContextValue("user"), "value of a type": adapter.ByContextValue(user{}),
	}
	for _, name := range []string{
		"ip", "path", "route", "header", "cookie", "query", "param", "value", "global", "method", // kinds
		"service", "tool", "subject", "session", "connection", "a", "b", "user", "a|b", "a%7Cb", "%",
	} {
		extractors["header "+name] = adapter.ByHeader(name)
		extractors["cookie "+name] = adapter.ByCookie(name)
		extractors["query "+name] = adapter.ByQuery(name)
		extractors["param "+name] = adapter.ByParam(name)
		extractors["query "+name+":a"] = adapter.ByQuery(name + ":a")
	}
	names := rapid.SampledFrom(slices.Sorted(maps.Keys(extractors)))
	rapid.Check(t, func(t *rapid.T) {
		type source struct{ extractor, value string }
		seen := make(map[string]source)
		value := hostile().Draw(t, "value")
		for range 40 {
			s := source{names.Draw(t, "extractor"), value}
			key := everywhere{value: s.value}.key(t, extractors[s.extractor])
			if other, taken := seen[key]; taken && other != s {
				t.Fatalf("%q and %q have the key %q", s, other, key)
			}
			seen[key] = s
			if strings.Contains(key, "|") {
				t.Fatalf("the key %q of %q has what stands between joined keys", key, s)
			}
			// Another client sends the key, or a part of it.
			value = rapid.SampledFrom([]string{key, key[strings.IndexByte(key, ':')+1:], hostile().Draw(t, "other")}).Draw(t, "next")
			if value == "" {
				value = key
			}
		}
	})
}

// FirstOf chooses between keys, so a client that leaves out a field chooses
// which one it is. No value makes it that of another client.
func TestNoValueMakesASingleKeyLikeAJoinedOne(t *testing.T) {
	a, b, c, d := adapter.ByHeader("A"), adapter.ByCookie("B"), adapter.ByHeader("C"), adapter.ByQuery("D")
	keys := firstOf(join(a, b), join(a, c, d), a, d)
	rapid.Check(t, func(t *rapid.T) {
		type fields struct{ a, b, c, d string }
		seen := make(map[string]fields)
		value := hostile().Draw(t, "value")
		draw := func(name string) string {
			return rapid.SampledFrom([]string{value, hostile().Draw(t, name), ""}).Draw(t, name)
		}
		for range 30 {
			f := fields{draw("A"), draw("B"), draw("C"), draw("D")}
			switch { // what FirstOf does not read does not count
			case f.a != "" && f.b != "":
				f.c, f.d = "", ""
			case f.a != "" && (f.c == "" || f.d == ""):
				f.b, f.c, f.d = "", "", ""
			case f.a != "":
				f.b = ""
			case f.d == "":
				continue
			default:
				f.b, f.c = "", ""
			}
			key := everywhere{fields: map[string]string{"A": f.a, "B": f.b, "C": f.c, "D": f.d}}.key(t, keys)
			if other, taken := seen[key]; taken && other != f {
				t.Fatalf("%q and %q have the key %q", f, other, key)
			}
			seen[key] = f
			_, after, _ := strings.Cut(key, ":")
			value = rapid.SampledFrom([]string{key, after, after[strings.IndexByte(after, ':')+1:]}).Draw(t, "next")
		}
	})
}
