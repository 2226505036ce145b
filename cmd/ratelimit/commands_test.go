//go:build ignore

package main

import (
	"bytes"
	"compress/gzip"
	"encoding/json"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/tokenbucket-go/ratelimit/cmd/ratelimit/internal/cli"
	"github.com/tokenbucket-go/ratelimit/core"
)

const secret = "sixteen bytes..."

// run runs a command in a directory with files, and returns what it prints.
func run(t *testing.T, in string, args ...string) (out, errs string, code int) {
	t.Helper()
	var o, e bytes.Buffer
	env := func(name string) string { return map[string]string{"LOG_KEY_SECRET": secret}[name] }
	code = table.Run(t.Context(), cli.Streams{In: strings.NewReader(in), Out: &o, Err: &e, Env: env}, args)
	if isJSON(args) {
		checkJSON(t, title(args), o.String())
	}
	return o.String(), e.String(), code
}

// files writes files into a directory, which becomes the working one.
func files(t testing.TB, texts map[string]string) {
	t.Helper()
	t.Chdir(t.TempDir())
	for name, text := range texts {
		require.NoError(t, os.WriteFile(name, []byte(text), 0o600))
	}
}

const good = "- {name: api, limits: [60/min]}\n- {name: login, limits: [5/15min]}\n"

func TestCheck(t *testing.T) {
	files(t, map[string]string{"good.yaml": good, "bad.yaml": "- name: api\n  limits: [ten/min, 5/x]\n- name: api\n  limits: [1/s]\n", "empty.yaml": ""})
	out, _, code := run(t, "", "check", "good.yaml")
	assert.Equal(t, "good.yaml: no mistakes in 2 policies: api, login\n", out)
	assert.Equal(t, cli.OK, code)

	out, _, code = run(t, "", "check", "good.yaml", "bad.yaml")
	assert.Equal(t, cli.Found, code)
	lines := strings.Split(strings.TrimSpace(out), "\n")
	require.Len(t, lines, 4, "one for the good file, and each mistake: %s", out)
	for i, place := range []string{"good.yaml: no mistakes", "bad.yaml:2:12: ", "bad.yaml:2:21: ", "bad.yaml:3:9: "} {
		assert.True(t, strings.HasPrefix(lines[i], place), "%s: %s", place, lines[i])
	}

	out, _, code = run(t, good, "check", "-json", "-", "bad.yaml", "lost.yaml", "empty.yaml")
	assert.Equal(t, cli.Unavailable, code, "a file that can't be read is worse than mistakes")
	var result struct {
		Files []struct {
			File, Unreadable string
			OK               bool
			Policies         []string
			Mistakes         []struct {
				Line, Column int
				Code, Field  string
			}
		}
	}
	require.NoError(t, json.Unmarshal([]byte(out), &result))
	require.Len(t, result.Files, 4)
	assert.Equal(t, []string{"api", "login"}, result.Files[0].Policies)
	assert.Len(t, result.Files[1].Mistakes, 3)
	assert.Equal(t, 12, result.Files[1].Mistakes[0].Column)
	assert.Contains(t, result.Files[2].Unreadable, "lost.yaml")
	assert.Equal(t, "RL202", result.Files[3].Mistakes[0].Code, "an empty file is a mistake")
	_, errs, code := run(t, "", "check", ".")
	assert.Equal(t, cli.Unavailable, code, "a directory can't be read: %s", errs)
}

func TestDiff(t *testing.T) {
	files(t, map[string]string{
		"old.yaml": "- {name: api, limits: [60/min], overrides: {'header:x-api-key:k-123': [90/min]}}",
		"new.yaml": "- {name: api, limits: [60/min]}", "bad.yaml": "- {name: api}",
	})
	out, _, code := run(t, "", "diff", "old.yaml", "old.yaml")
	assert.Equal(t, "The policies are the same.\n", out)
	assert.Equal(t, cli.OK, code)
	out, _, code = run(t, "", "diff", "old.yaml", "new.yaml")
	assert.Equal(t, cli.Found, code)
	assert.Contains(t, out, "cut     api for header:…, limit api: 60/min, was 90/min: ")
	assert.NotContains(t, out, "k-123", "keys are personal data")
	out, _, _ = run(t, "", "diff", "-keys", "show", "-json", "old.yaml", "new.yaml")
	assert.Contains(t, out, `"key": "header:x-api-key:k-123"`)
	assert.True(t, json.Valid([]byte(out)))
	_, errs, code := run(t, "", "diff", "old.yaml", "bad.yaml")
	assert.Equal(t, cli.Unavailable, code)
	assert.Contains(t, errs, "bad.yaml:1:3")
}

func TestKeyAndHash(t *testing.T) {
	for line, want := range map[string]string{
		"-ip 192.0.2.1": "ip:192.0.2.1\n", "-ip 2001:db8::1 -ipv6-prefix 48": "ip:2001:db8::/48\n",
		"-header X-Api-Key=a=b -path /x": "header:x-api-key:a=b\npath:/x\n",
		"-join -path /x -ip 192.0.2.1":   core.JoinKey("path:/x", "ip:192.0.2.1") + "\n",
	} {
		out, errs, code := run(t, "", append([]string{"key"}, strings.Fields(line)...)...)
		assert.Equal(t, want, out, line)
		assert.Equal(t, cli.OK, code, errs)
	}
	for _, line := range []string{"", "-ip nobody", "-header x", "-header =x", "-header x=", "-ip 192.0.2.1 -ipv6-prefix 200"} {
		_, _, code := run(t, "", append([]string{"key"}, strings.Fields(line)...)...)
		assert.Equal(t, cli.Misused, code, line)
	}

	var lines bytes.Buffer
	logger := slog.New(slog.NewTextHandler(&lines, &slog.HandlerOptions{Level: slog.LevelDebug}))
	l := core.Must(core.NewLimiter(core.NewMemoryStore(), core.Policy{Name: "api", Limits: []core.Limit{core.PerDay(1)}}, core.WithLogger(logger), core.WithKeySecret([]byte(secret))))
	for range 2 {
		_, err := l.Allow(t.Context(), "ip:192.0.2.1")
		require.NoError(t, err)
	}
	logged := regexp.MustCompile(`key=([0-9a-f]{12}) `).FindStringSubmatch(lines.String())
	require.NotNil(t, logged, "the premise: the log has the key")
	out, _, _ := run(t, "", "hash", "ip:192.0.2.1")
	assert.Equal(t, logged[1]+"\n", out, "hash prints what the log has")
}

func TestReplayOfTheSample(t *testing.T) {
	sample, _, code := run(t, "", "replay", "-sample")
	require.Equal(t, cli.OK, code)
	again, _, _ := run(t, "", "replay", "-sample")
	assert.Equal(t, sample, again, "the sample is the same each time")
	assert.Less(t, len(sample), 200_000)
	var z bytes.Buffer
	w := gzip.NewWriter(&z)
	_, _ = w.Write([]byte(strings.ReplaceAll(sample, "\n", "\r\n")))
	require.NoError(t, w.Close())
	files(t, map[string]string{"p.yaml": good, "a.log": sample, "b.gz": z.String(), "cut.gz": z.String()[:z.Len()/2], "empty.log": "", "bad.log": "nonsense\n"})

	want, errs, code := run(t, "", "replay", "-policies", "p.yaml", "-policy", "api", "-limit", "300/day aligned", "a.log")
	require.Equal(t, cli.OK, code, errs)
	// The loop sends 450 requests, of which a quota of 300 denies 150. The job
	// sends 150 in a minute, and a bucket of 60 gains 59 in that time.
	for _, part := range []string{"policy          api ", "31 (2.3 %)", "150 (11.1 %)", "ip:203.0.113.250  150  of  450", "ip:198.51.100.200  31  of  150", "burst × 1.52: 60/min burst 91", "quota × 1.5: 450/day aligned"} {
		assert.Contains(t, want, part)
	}
	for _, log := range []string{"b.gz", "-"} {
		out, _, _ := run(t, sample, "replay", "-policies", "p.yaml", "-policy", "api", "-limit", "300/day aligned", log)
		assert.Equal(t, want, out, "%s: compression, line ends and standard input change nothing", log)
	}
	out, errs, code := run(t, "", "replay", "-limit", "60/min", "cut.gz")
	assert.Equal(t, cli.Unavailable, code, "the rest could not be read")
	assert.Contains(t, errs, "unexpected EOF")
	assert.Contains(t, out, "requests of", "what could be read is reported")

	hidden, _, _ := run(t, "", "replay", "-limit", "60/min", "-keys", "hash", "-json", "a.log")
	hash, _, _ := run(t, "", "hash", "ip:198.51.100.200")
	assert.Contains(t, hidden, strings.TrimSpace(hash))
	assert.NotContains(t, hidden, "198.51.100.200")
	assert.True(t, json.Valid([]byte(hidden)))

	nobody, errs, _ := run(t, "time,ip\n1,ann@example.com\n", "replay", "-limit", "60/min", "-keys", "hide", "-")
	assert.Contains(t, errs, "the first of 1 line that can't be used is -:2: ratelimit: the request has no key")
	assert.NotContains(t, nobody+errs, "ann@example.com")

	for line, says := range map[string]string{
		"-limit 60/min lost.log": "lost.log", "-limit 60/min .": "is a directory", "-limit 60/min empty.log": "no line is a request",
		"-limit 60/min bad.log": "bad.log:1: the format is not clear", "-limit 60/min -only path=/x a.log": "left out 1,349 lines",
	} {
		_, errs, code := run(t, "", append([]string{"replay"}, strings.Fields(line)...)...)
		assert.Equal(t, cli.Unavailable, code, line)
		assert.Contains(t, errs, says, line)
	}
	for line, says := range map[string]string{
		"-limit 1/s -html a.log a.log": "-html a.log is read too", "-policies p.yaml -html p.yaml a.log": "-html p.yaml is read too",
		"-limit 1/s -field tim=when a.log": `-field "tim" must be time, ip,`,
		"a.log":                            "-policies", "-limit 60/min": "needs a log", "-limit ten/min a.log": "RL103", "-policies p.yaml -policy ap a.log": "did you mean api?",
		"-limit 1/s -keys x a.log": "show, hash or hide", "-limit 1/s -format xml a.log": "-format", "-limit 1/s -spare 0 a.log": "-spare", "-limit 1/s -zone Mars a.log": "-zone",
	} {
		_, errs, code := run(t, "", append([]string{"replay"}, strings.Fields(line)...)...)
		assert.Equal(t, cli.Misused, code, line)
		assert.Contains(t, errs, says, line)
	}
}

// What clients send stands in the page as text, and in no terminal as a control
// character.
func TestReplayShowsNothingThatClientsCanSteer(t *testing.T) {
	line := `192.0.2.1 - - [02/Mar/2026:12:00:00 +0000] "GET /</title><script>alert(1)</script>\x1b[2J\"onload=x HTTP/1.1" 200 1 "-" "a"` + "\n"
	files(t, map[string]string{"a.log": strings.Repeat(line, 5) + "\x1b]0;owned\x07<script>bad()</script>\n"})
	out, errs, code := run(t, "", "replay", "-limit", "1/day", "-key", "path", "-html", "page.html", "a.log")
	require.Equal(t, cli.OK, code, errs)
	assert.NotContains(t, out, "\x1b")
	page, err := os.ReadFile(filepath.Clean("page.html"))
	require.NoError(t, err)
	text := string(page)
	assert.NotContains(t, text, "<script")
	assert.Contains(t, text, "&lt;script&gt;alert(1)", "the premise: the path is in the page")
	assert.Contains(t, text, "default-src 'none'")
	assert.NotRegexp(t, `(src|href)=`, text, "the page needs no other file")
	assert.Contains(t, text, "prefers-color-scheme: dark")
	assert.Equal(t, strings.Count(text, "<svg"), strings.Count(text, "</svg>"))
	assert.Contains(t, text, "Most were denied in the hour of 2026-03-02 12:00: 4 of 5.")
	files(t, map[string]string{"\x1b[31m\u202e.log": line + "bad\n", "\x1b[31m.log": "bad\n"})
	for _, args := range [][]string{{"\x1b[31m\u202e.log"}, {"-json", "\x1b[31m\u202e.log"}, {"\x1b[31m.log"}, {"\x1b[31mlost.log"}} {
		out, errs, _ := run(t, "", append([]string{"replay", "-limit", "1/day"}, args...)...)
		assert.Contains(t, strings.ReplaceAll(out+errs, `\\`, `\`), `\x1b[31m`, "the premise: the file is named")
		assert.NotContains(t, out+errs, "\x1b")
		assert.NotContains(t, out+errs, "\u202e")
	}
}

func TestCompletionNamesEveryCommandAndFlag(t *testing.T) {
	for _, shell := range []string{"bash", "zsh", "fish"} {
		out, _, code := run(t, "", "completion", shell)
		assert.Equal(t, cli.OK, code)
		for _, word := range []string{"check", "diff", "replay", "key", "hash", "ipv6-prefix", "policies"} {
			assert.Contains(t, out, word, shell)
		}
	}
}

// The report of replay has each plan of a policy for itself.
func TestReplayOfPlans(t *testing.T) {
	log := "time,user,tier\n"
	for i := range 30 {
		log += fmt.Sprintf("%d,%s,%s\n", 1772409600, []string{"ann", "bob"}[i%2], []string{"", "pro"}[i%2])
	}
	files(t, map[string]string{
		"p.yaml": "- {name: api, limits: [5/h], plans: {pro: [10/h]}}\n", "a.csv": log,
		"plans.csv": "user:ann,pro\n\"user:bob\",pro\n", "bad.csv": "user:ann,pro\nuser:bob\n",
	})
	out, errs, code := run(t, "", "replay", "-policies", "p.yaml", "-key", "user", "-plan", "tier", "a.csv")
	require.Equal(t, cli.OK, code, errs)
	assert.Regexp(t, `policy +api, no plan +api, plan pro\nlimits +5/h +10/h\ndenied +10 \(66.7 %\) +5 \(33.3 %\)\nclients denied +1 \(100 %\) +1 \(100 %\)\n`, out)
	out, errs, code = run(t, "", "replay", "-policies", "p.yaml", "-key", "user", "-plans", "plans.csv", "-html", "page.html", "-json", "a.csv")
	require.Equal(t, cli.OK, code, errs)
	assert.Contains(t, out, `"label": "api, plan pro"`)
	assert.Contains(t, out, `"requests": 30`)
	assert.NotContains(t, out, "no plan")
	for _, c := range [][2]string{{"bad.csv", "each line must be KEY,PLAN"}, {"none.csv", "none.csv"}} {
		_, errs, code = run(t, "", "replay", "-policies", "p.yaml", "-plans", c[0], "a.csv")
		assert.NotEqual(t, cli.OK, code)
		assert.Contains(t, errs, c[1])
	}
}

// Times without a zone are those of -zone, and the report says so. Times with
// one are not moved.
func TestReplayOfTimesWithoutAZone(t *testing.T) {
	files(t, map[string]string{
		"a.csv":  "time,ip\n2026-07-01 00:30:00,192.0.2.1\n2026-07-01T12:00:00,192.0.2.1\n",
		"a.json": `{"time":"2026-07-01 00:30:00.5","ip":"192.0.2.1"}` + "\n" + `{"time":"2026-07-01T12:00:00+02:00","ip":"192.0.2.1"}` + "\n",
		"b.csv":  "time,ip\n2026-10-25 02:30:00,192.0.2.1\nsoon,192.0.2.1\n2026-10-25 02:30:00,192.0.2.1\n2026-10-25 03:00:00,192.0.2.1\n",
	})
	for _, c := range []struct{ line, from, to, remark string }{
		{"-zone Asia/Tokyo b.csv", "2026-10-25T02:30:00+09:00", "2026-10-25T03:00:00+09:00", "the times of 3 requests have no zone"},
		{"-zone Europe/Berlin b.csv", "2026-10-25T02:30:00+0", "2026-10-25T03:00:00+01:00", "the times of 2 requests come twice, as the clocks of Europe/Berlin go back,"},
		{"a.csv", "2026-07-01T00:30:00Z", "2026-07-01T12:00:00Z", "the times of 2 requests have no zone, and are read as UTC (see -zone)"},
		{"-zone Europe/Berlin a.csv", "2026-07-01T00:30:00+02:00", "2026-07-01T12:00:00+02:00", "the times of 2 requests have no zone, and are read as Europe/Berlin (see -zone)"},
		{"-zone Europe/Berlin a.json", "2026-07-01T00:30:00.5+02:00", "2026-07-01T12:00:00+02:00", "the times of 1 request have no zone, and are read as Europe/Berlin (see -zone)"},
		{"-zone America/New_York a.json", "2026-07-01T00:30:00.5-04:00", "2026-07-01T06:00:00-04:00", "read as America/New_York"},
	} {
		out, errs, code := run(t, "", append([]string{"replay", "-json", "-limit", "1/day"}, strings.Fields(c.line)...)...)
		require.Equal(t, cli.OK, code, errs)
		assert.Contains(t, out, `"from": "`+c.from, c.line)
		assert.Contains(t, out, `"to": "`+c.to+`"`, c.line)
		assert.Contains(t, out, c.remark, c.line)
	}
	sample, _, _ := run(t, "", "replay", "-sample")
	out, _, _ := run(t, sample, "replay", "-limit", "1/day", "-")
	assert.NotContains(t, out, "no zone", "the combined format has one")
	_, errs, code := run(t, "", "replay", "-limit", "1/day", "-zone", "Berlin", "a.csv")
	assert.Equal(t, cli.Misused, code)
	assert.Contains(t, errs, `-zone "Berlin" is not a time zone such as Europe/Berlin: did you mean Europe/Berlin?`)
}
