package main

import (
	"bytes"
	"compress/gzip"
	"context"
	"encoding/json"
	"io"
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/tokenbucket-go/ratelimit/cmd/ratelimit/internal/replay"
)

// sampleFiles makes files of the sample log, and policies.
func sampleFiles(t *testing.T) (sample string) {
	t.Helper()
	sample, errs, code := printed(t, "", "replay", "--sample")
	require.Equal(t, exitDone, code, errs)
	var z bytes.Buffer
	w := gzip.NewWriter(&z)
	_, err := io.WriteString(w, strings.ReplaceAll(sample, "\n", "\r\n"))
	require.NoError(t, err)
	require.NoError(t, w.Close())
	write(t, map[string]string{
		"policies.yaml": goodPolicies, "bad.yaml": badPolicies, "a.log": sample, "b.gz": z.String(), "cut.gz": z.String()[:z.Len()/2], "empty.log": "", "tokens.yaml": "- {name: api, limits: [100 tokens/min]}\n", "bad.log": "nonsense\n",
		"proxy.log": `203.0.113.7, 10.0.0.5 - - [02/Mar/2026:12:00:00 +0000] "GET / HTTP/1.1" 200 1` + "\n",
	})
	return sample
}

func TestReplaySaysWhatPoliciesAndLimitsDeny(t *testing.T) {
	sample := sampleFiles(t)
	args := []string{"replay", "--policies", "policies.yaml", "--policy", "api", "--limit", "300/day aligned"}
	want, errs, code := printed(t, "", append(args, "a.log")...)
	require.Equal(t, exitDone, code, errs)
	// The loop of the sample sends 450 requests, of which a quota of 300 denies
	// 150. The job sends 150 in 59 s, in which 60/min admits 60 + 59: 150 need 76 +
	// 74, 60 + 90 or 91 + 59.
	for _, part := range []string{
		"api denies 31 of 1,349 requests (2.3 %), all from one client.", "300/day aligned denies 150 of 1,349 requests (11.1 %), all from one client.",
		"  ip:203.0.113.250  150 of 450 requests", "\n    76/min\n", "\n    92/min burst 60\n", "\n    60/min burst 91\n", "\n    450/day aligned\n",
	} {
		assert.Contains(t, want, part)
	}
	for _, log := range []string{"b.gz", "-"} {
		out, _, _ := printed(t, sample, append(args, log)...)
		assert.Equal(t, want, out, "%s: compression, line ends and standard input change nothing", log)
	}
	out, _, _ := printed(t, "", "replay", "--policies", "policies.yaml", "a.log", "b.gz")
	assert.Contains(t, out, "2,698 requests of 64 clients")
	assert.Contains(t, out, "login denies", "without --policy all of a file are tried")
}

func TestReplayPrintsTheSameAsJSONAndAsAPage(t *testing.T) {
	sampleFiles(t)
	out, errs, code := printed(t, "", "replay", "--limit", "60/min", "--json", "--html", "page.html", "a.log")
	require.Equal(t, exitDone, code, errs)
	var report replay.Report
	require.NoError(t, json.Unmarshal([]byte(out), &report))
	assert.Equal(t, 31, report.Policies[0].Denied)
	page, err := os.ReadFile("page.html")
	require.NoError(t, err)
	assert.Contains(t, string(page), report.Policies[0].Verdict)
	text, _, _ := printed(t, "", "replay", "--limit", "60/min", "a.log")
	assert.Contains(t, text, report.Policies[0].Verdict)
}

func TestReplayRefusesWhatItCantDo(t *testing.T) {
	sampleFiles(t)
	for _, c := range []struct {
		line string
		code int
		says string
	}{
		{"--limit 60/min lost.log", exitUnavailable, "lost.log"},
		{"--limit 60/min .", exitUnavailable, "is a directory"},
		{"--limit 60/min empty.log", exitUnavailable, "no line is a request"},
		{"--limit 60/min bad.log", exitUnavailable, "1 line left out that can't be read, the first is bad.log:1: the line is neither JSON"},
		{"--limit 60/min --only path=/x a.log", exitUnavailable, "1,349 lines left out as --only and --skip say"},
		{"--limit 60/min --key user a.log", exitUnavailable, "a.log:1: the line has no user"},
		{"--limit 60/min proxy.log", exitMisuse, "proxy.log:1: \"203.0.113.7, 10.0.0.5\" are several addresses, and the log does not say which one is the client's: name your proxies with --trust"},
		{"--limit 60/min --trust 10.0.0.0/33 a.log", exitMisuse, "--trust: "},
		{"--limit 60/min --html ./a.log a.log", exitMisuse, "--html ./a.log would replace a file that is read"},
		{"--policies policies.yaml --html policies.yaml a.log", exitMisuse, "would replace"},
		{"a.log", exitMisuse, "--limit '100/min burst 20'"},
		{"--limit 60/min", exitMisuse, "name a log"},
		{"--limit ten/min a.log", exitMisuse, "RL110"},
		{"--policies tokens.yaml a.log", exitMisuse, "has no limit that counts requests"},
		{"--policies policies.yaml --policy ap a.log", exitMisuse, "did you mean api?"},
		{"--policy api --limit 1/s a.log", exitMisuse, "--policies"},
		{"--policies bad.yaml a.log", exitMisuse, "bad.yaml:2:12: "},
		{"--policies lost.yaml a.log", exitUnavailable, "lost.yaml"},
		{"--policies - -", exitMisuse, "standard input"},
		{"--limit 1/s --key header: a.log", exitMisuse, "--key header:"},
		{"--sample --limit 1/s a.log", exitMisuse, "--sample"},
	} {
		out, errs, code := printed(t, "", append([]string{"replay"}, strings.Fields(c.line)...)...)
		assert.Equal(t, c.code, code, c.line)
		assert.Contains(t, errs, c.says, c.line)
		assert.Empty(t, out, c.line)
	}
	log, err := os.ReadFile("a.log")
	require.NoError(t, err)
	assert.NotEmpty(t, log, "a log is not replaced")
	out, errs, code := printed(t, "", "replay", "--limit", "60/min", "cut.gz")
	assert.Equal(t, exitUnavailable, code)
	assert.Contains(t, errs, "the rest of cut.gz can't be read: unexpected EOF")
	assert.Contains(t, out, "60/min denies", "what could be read is reported")
}

// A read of a terminal never ends by itself.
func TestReplayOfStandardInputIsInterrupted(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	in, _ := io.Pipe()
	var out, errs bytes.Buffer
	cancel()
	assert.Equal(t, exitInterrupted, run(ctx, []string{"replay", "--limit", "1/s", "-"}, in, &out, &errs))
}
