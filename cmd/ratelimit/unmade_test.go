//go:build ignore

package main

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/tokenbucket-go/ratelimit/cmd/ratelimit/internal/cli"
	"github.com/tokenbucket-go/ratelimit/core"
	"github.com/tokenbucket-go/ratelimit/core/keyof"
)

// A key that an extractor makes, or a function of the app by JoinKey, is not
// doubtful.
func TestCheckDoubtsOnlyKeysThatNoExtractorMakes(t *testing.T) {
	for _, key := range []string{
		core.Must(keyof.IP("192.0.2.1")), core.Must(keyof.IP("2001:db8::1")), core.Must(keyof.IP("2001:db8::1", core.IPv6Prefix(56))),
		core.Must(keyof.Header("X-Api-Key", "a:b%c")), core.Must(keyof.Header("X-Api-Key", string(make([]byte, 200)))), core.Must(keyof.Cookie("session", "ü")),
		core.Must(keyof.Value("user", "bob@example.com")), core.Must(keyof.Param("id", "7")), core.Must(keyof.Method("GET")), core.Must(keyof.Global("all")),
		core.JoinKey("user", "acme", "bob"), keyof.Join(core.Must(keyof.IP("192.0.2.1")), core.Must(keyof.Path("/a"))),
	} {
		assert.Equal(t, key, asExtractors(key))
	}
	for key, want := range map[string]string{
		"192.0.2.1": "ip:192.0.2.1", "2001:db8::1": core.Must(keyof.IP("2001:db8::1")), "ip:2001:db8::1": core.Must(keyof.IP("2001:db8::1")),
		"header:X-Api-Key:k-123": "header:x-api-key:k-123", "bob": "", "ip:bob": "",
	} {
		assert.Equal(t, want, asExtractors(key), key)
	}
}

func TestCheckSaysWhatIsDoubtful(t *testing.T) {
	files(t, map[string]string{"p.yaml": "- name: api\n  limits: [60/min]\n  overrides: {bob: [90/min], 'value:user:ann': [90/min]}\n  blocked: [192.0.2.1]\n"})
	out, _, code := run(t, "", "check", "p.yaml")
	assert.Equal(t, cli.OK, code, "a doubt is no mistake")
	assert.Contains(t, out, "p.yaml: no mistakes in 1 policy: api\n"+
		"  doubtful: api, override of bob: no extractor makes this key, only a key function of your own\n"+
		"  doubtful: api, block of 192.0.2.1: no extractor makes this key: did you mean ip:192.0.2.1?\n")
	files(t, map[string]string{"p.yaml": "- name: api\n  limits: [60/min name minute, 9/day name day]\n  plans:\n    pro: [90/min name minuet, 99/day name day, 5/s name second]\n    all: [90/min name minute, 9/s name minutes]\n"})
	out, _, code = run(t, "", "check", "p.yaml")
	assert.Equal(t, cli.OK, code)
	assert.Contains(t, out, "  doubtful: api, plan pro: no other limit counts with minuet: did you mean minute?\n")
	assert.Equal(t, 1, strings.Count(out, "doubtful"), out)
	out, _, _ = run(t, "", "key", "-value", "user=bob")
	assert.Equal(t, "value:user:bob\n", out)
}
