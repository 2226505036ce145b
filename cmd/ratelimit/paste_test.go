package main

import (
	"encoding/json"
	"math/rand/v2"
	"net/http/httptest"
	"os/exec"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/tokenbucket-go/ratelimit/cmd/ratelimit/internal/cli"
	"github.com/tokenbucket-go/ratelimit/cmd/ratelimit/internal/show"
	"github.com/tokenbucket-go/ratelimit/core"
	"github.com/tokenbucket-go/ratelimit/core/keyof"
	"github.com/tokenbucket-go/ratelimit/core/redisstore"
)

// hostile are keys that a terminal, a table, a shell, a flag or JSON changes,
// and random ones.
func hostile() []string {
	list := []string{
		"plain", "two words", "-", "-all", "--", `"`, `"quoted"`, `""`, "o'brien", "a\tb", "a\nb", "a\r\nb", "\u202egnp", "a\u2028b", "a\u200bb", "\u3164", "\xff", "user:\xff",
		"\ufffd", " a", "a ", "a  b", "\u00a0", `\x41`, "$HOME", "`id`", "!!", "*", "~", "é", "e\u0301", "%3A", "{a,b}", "\x00", "\x7f", "\x1b[2J", "…", strings.Repeat("long ", 25) + "x",
		core.JoinKey("header", "x-api-key", "a\tb"), core.JoinKey("header:x-api-key:o'brien", "path:/a b"),
	}
	for range 10 {
		key := make([]byte, 1+rand.IntN(12))
		for i := range key {
			key[i] = byte(rand.IntN(256))
		}
		list = append(list, string(key))
	}
	slices.Sort(list)
	return slices.Compact(list)
}

// pasted returns the arguments that a shell makes of what is pasted between
// single quotes.
func pasted(t *testing.T, printed []string) []string {
	t.Helper()
	out, err := exec.CommandContext(t.Context(), "bash", "-c", `printf '%s\0' '`+strings.Join(printed, `' '`)+`'`).Output()
	require.NoError(t, err)
	return strings.Split(strings.TrimSuffix(string(out), "\x00"), "\x00")
}

// firstCells are the first cells of a table's lines.
func firstCells(text string) (list []string) {
	for line := range strings.Lines(strings.TrimSuffix(text, "\n")) {
		cell, _, _ := strings.Cut(strings.TrimSpace(line), "  ")
		list = append(list, cell)
	}
	return list
}

// What a command prints of a key can be pasted into another one, which then
// means that key and no other.
func TestPrintedKeysCanBePastedBack(t *testing.T) {
	s := serve(t)
	keys := hostile()
	for _, key := range keys {
		s.use(t, key, 5)
		require.NoError(t, s.store.SetException(t.Context(), "api", redisstore.Exception{Key: key}))
	}
	policies := []string{"-policies", "p.yaml"}
	one := func(command string, args ...string) string {
		out, errs, code := s.run(t, command, append(policies, args...)...)
		require.Contains(t, []int{cli.OK, cli.Found}, code, "%s %q: %s%s", command, args, out, errs)
		return out
	}
	list := one("list", "-most", "1000", "api")
	printed := firstCells(list[strings.Index(list, "\n")+1:])
	exceptions := firstCells(one("exceptions", "api"))
	var read struct {
		Buckets []struct {
			Key   string
			Bytes []byte `json:"key_base64"`
		}
	}
	require.NoError(t, json.Unmarshal([]byte(one("list", "-most", "1000", "-json", "api")), &read))
	var fromJSON, fromBytes []string
	for _, b := range read.Buckets {
		fromJSON = append(fromJSON, b.Key)
		if b.Bytes == nil {
			b.Bytes = []byte(b.Key)
		}
		fromBytes = append(fromBytes, string(b.Bytes))
	}
	slices.Sort(fromBytes)
	assert.Equal(t, keys, fromBytes, "JSON has each key as bytes, or as text that is the key")
	for place, printed := range map[string][]string{"list": printed, "exceptions": exceptions, "JSON": fromJSON} {
		var found []string
		for _, arg := range pasted(t, printed) {
			key, err := takenKey(arg)
			require.NoError(t, err, "%s: %q", place, arg)
			found = append(found, key)
		}
		slices.Sort(found)
		assert.Equal(t, keys, found, "%s prints each key", place)
	}

	stored := func() (list []string) {
		for b, err := range s.store.Buckets(t.Context(), "api", 0) {
			require.NoError(t, err)
			list = append(list, b.Key)
		}
		slices.Sort(list)
		return slices.Compact(list)
	}
	blocked := func() (list []string) {
		all, err := s.store.Exceptions(t.Context(), "api")
		require.NoError(t, err)
		for _, x := range all {
			if x.Blocks() {
				list = append(list, x.Key)
			}
		}
		slices.Sort(list)
		return list
	}
	words := pasted(t, printed)
	for i, arg := range words {
		key, shown := core.Must(takenKey(arg)), "api "+printed[i]
		without := func(keys []string) []string {
			return slices.DeleteFunc(slices.Clone(keys), func(k string) bool { return k == key })
		}
		before := blocked()
		for _, line := range [][]string{ // each key takes a turn
			{"get", "api", arg}, {"debit", "api", arg, "daily", "1"}, {"credit", "api", arg, "daily", "1"}, {"override", "api", arg, "9/day name daily"}, {"override", "-remove", "api", arg}, {"block", "api", arg},
		}[i%6:] {
			out := one(line[0], line[1:]...)
			assert.True(t, strings.HasPrefix(out, shown), "%v prints the key as it was: %s", line, out)
			assert.NotContains(t, out, "Redis has no", "%v means the key", line)
		}
		one("unblock", "api", arg)
		assert.ElementsMatch(t, without(before), blocked(), "unblock ends the block of %q alone", key)
		before = stored()
		if found := one("find", arg); !strings.Contains(found, "  "+printed[i]+"\n") && !strings.Contains(found, "  "+printed[i]+"  ") {
			t.Errorf("find prints %q as it was: %s", key, found)
		}
		remove := []string{"reset", "api", arg}
		if i%2 == 0 {
			remove = []string{"forget", "-yes", arg}
		}
		one(remove[0], remove[1:]...)
		after := stored()
		assert.NotContains(t, after, key, "%v", remove)
		if i%2 != 0 {
			assert.Equal(t, without(before), after, "reset deletes %q alone", key)
		}
		if i%2 == 0 { // names are values too, and delete joined keys: see TestNamesMeanValuesAlone
			for _, gone := range without(before) {
				assert.True(t, slices.Contains(after, gone) || strings.Contains(gone, ":"), "%v deletes %q", remove, gone)
			}
			for _, key := range before {
				if !slices.Contains(after, key) {
					s.use(t, key, 1)
				}
			}
		}
		out, _, code := run(t, "", "hash", arg)
		assert.Equal(t, cli.OK, code)
		assert.Equal(t, show.Hash([]byte(secret), key)+"\n", out)
	}
}

// The command key, top, replay and doctor print keys so too.
func TestOtherCommandsPrintKeysToPaste(t *testing.T) {
	p := replicaOf(t, 1, httptest.NewServer)
	keys := slices.DeleteFunc(hostile(), func(key string) bool { return len(key) > 100 })
	for _, key := range keys {
		p.deny(t, key, 1)
	}
	out, errs, code := top(t, asAnn, "-n", "1000", p.url)
	require.Equal(t, cli.OK, code, errs)
	lines := out[strings.Index(out, "\n")+1:]
	var read struct {
		Policies []struct {
			Keys []struct {
				Key   string
				Bytes []byte `json:"key_base64"`
			}
		}
	}
	out, _, _ = top(t, asAnn, "-n", "1000", "-json", p.url)
	require.NoError(t, json.Unmarshal([]byte(out), &read))
	var found, fromBytes []string
	for _, arg := range pasted(t, firstCells(lines)) {
		found = append(found, core.Must(takenKey(arg)))
	}
	for _, k := range read.Policies[0].Keys {
		if k.Bytes == nil {
			k.Bytes = []byte(k.Key)
		}
		fromBytes = append(fromBytes, string(k.Bytes))
	}
	slices.Sort(found)
	slices.Sort(fromBytes)
	assert.Equal(t, keys, found, "top")
	assert.Equal(t, keys, fromBytes, "top -json")

	for _, value := range []string{"o'brien", "a\tb", "\u202egnp", "-x", "k-1"} {
		want := core.Must(keyof.Header("x-api-key", value))
		out, _, _ := run(t, "", "key", "-header", "x-api-key="+value)
		assert.Equal(t, want, core.Must(takenKey(pasted(t, []string{strings.TrimSuffix(out, "\n")})[0])))
		line := `{"time":"2026-03-02T00:00:00Z","api_key":` + string(core.Must(json.Marshal(value))) + "}\n"
		out, errs, code := run(t, line+line+line, "replay", "-limit", "1/day", "-key", "header:x-api-key=api_key", "-format", "json", "-")
		require.Equal(t, cli.OK, code, errs)
		shown := regexp.MustCompile(`denied most:\n +(.*?)  +\d`).FindStringSubmatch(out)
		require.NotNil(t, shown, out)
		assert.Equal(t, want, core.Must(takenKey(pasted(t, shown[1:])[0])), "replay")
	}

	s := serve(t)
	for _, key := range []string{"o'brien", "a\xffb"} {
		require.NoError(t, s.client.Set(t.Context(), s.prefix+"api:"+key, "no bucket", 0).Err())
	}
	out, _, _ = s.run(t, "doctor", "-policies", "p.yaml")
	for _, shown := range []string{`api "o\x27brien"`, `api "a\xffb"`} {
		assert.Contains(t, out, shown)
	}
}
