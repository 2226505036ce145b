package main

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/tokenbucket-go/ratelimit/adminlimit"
	"github.com/tokenbucket-go/ratelimit/core"
)

var rewrite = flag.Bool("write", false, "write into pages what commands print")

// TestMain is the command itself if a page runs it: at noon, whatever the time,
// and with much time for each call.
func TestMain(m *testing.M) {
	if os.Getenv("BE_RATELIMIT") == "" {
		os.Exit(m.Run())
	}
	storeClock = func() time.Time { return noon }
	longestSearch = time.Minute
	args := os.Args[1:]
	pages := strings.NewReplacer("app-1:8080/admin", os.Getenv("APP")+"/first", "app-2:8080/admin", os.Getenv("APP")+"/second")
	for i, arg := range args {
		args[i] = pages.Replace(arg)
	}
	os.Exit(run(context.Background(), patient(args), os.Stdin, os.Stdout, os.Stderr))
}

var (
	blocks   = regexp.MustCompile("(?ms)^```(\\w+)\n(.*?)^```")
	fileName = regexp.MustCompile("`([\\w.]+)`:\n\n$")
)

// The commands of docs/tools.md run, each block on the buckets of clients, in a directory
// with the files that the page shows, and print what it shows. A comment behind
// a command is a part of what it prints. The clock stands still,
// and the keys of Redis end after hours, so the machine may be slow.
func TestCommandsPrintWhatThePageShows(t *testing.T) {
	path := docs("tools.md")
	before, err := os.ReadFile(path)
	require.NoError(t, err)
	s := serve(t, nightFiles)
	after := s.runPage(t, string(before), func(t *testing.T) {
		require.NoError(t, s.redis.FlushAll(t.Context()).Err())
		s.clients(t)
	})
	if *rewrite {
		require.NoError(t, os.WriteFile(path, []byte(after), 0o644))
	}
}

// nightFiles are policies that the page does not show.
var nightFiles = map[string]string{
	"policies.yaml": "- {name: api, limits: [20/min, 10/day name daily]}\n- {name: exports, limits: [10/day name daily]}\n",
	"plans.yaml":    "- {name: plans, limits: [10/day name daily], plans: {pro: [1000/day name daily]}}\n",
	"jobs.yaml":     "- {name: jobs, limits: [2 at once hold 10h name work]}\n",
}

// runPage returns the page with what its commands print.
func (s *service) runPage(t *testing.T, page string, prepare func(*testing.T)) string {
	t.Helper()
	shell := s.shell(t)
	var shown strings.Builder
	printed, at, ran := "", 0, 0
	for _, b := range blocks.FindAllStringSubmatchIndex(page, -1) {
		kind, body := page[b[2]:b[3]], page[b[4]:b[5]]
		shown.WriteString(page[at:b[4]])
		at = b[4]
		switch {
		case kind == "yaml":
			if name := fileName.FindStringSubmatch(page[:b[0]]); name != nil {
				require.NoError(t, os.WriteFile(name[1], []byte(body), 0o600))
			}
		case kind == "go":
			printed = "" // docs runs programs
		case kind == "sh" && strings.Contains(body, "ratelimit ") && !strings.HasPrefix(body, "go install"):
			ran++
			prepare(t)
			if printed = ""; !strings.Contains(body, " # ") {
				printed = shell(body)
				break
			}
			for line := range strings.Lines(body) {
				command, says, _ := strings.Cut(strings.TrimSpace(line), " # ")
				assert.Contains(t, shell(command), says, command)
			}
		case kind == "text" && printed != "":
			if !*rewrite {
				assert.Equal(t, body, printed, "go test -run PageShows -write . corrects the page")
			}
			shown.WriteString(printed)
			printed, at = "", b[5]
		}
	}
	require.Positive(t, ran, "the premise: the page has commands")
	return shown.String() + page[at:]
}

// shell returns a function that runs commands, and returns what they print.
func (s *service) shell(t *testing.T) func(script string) string {
	t.Helper()
	bin := t.TempDir()
	require.NoError(t, os.Symlink(os.Args[0], filepath.Join(bin, "ratelimit")))
	app := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if _, given, _ := r.BasicAuth(); given != password {
			w.WriteHeader(http.StatusUnauthorized)
			return
		}
		keys := []adminlimit.DeniedKey{{Key: "x-api-key:k-123", AtLeast: 130}, {Key: "ip:192.0.2.7", AtLeast: 41}}
		d := adminlimit.Denials{Policy: "api", From: noon.Add(-84 * time.Minute), Until: noon, Denied: 171, Keys: keys}
		if r.URL.Path == "/second/limits" {
			d.Denied, d.Keys = 121, []adminlimit.DeniedKey{{Key: "x-api-key:k-123", AtLeast: 121}}
		}
		assert.NoError(t, json.NewEncoder(w).Encode(adminlimit.State{Denied: []adminlimit.Denials{d}}))
	}))
	t.Cleanup(app.Close)
	env := append(os.Environ(), "BE_RATELIMIT=1", "PATH="+bin+string(os.PathListSeparator)+os.Getenv("PATH"), "APP="+strings.TrimPrefix(app.URL, "http://"), "PASSWORD="+password)
	return func(script string) string {
		t.Helper()
		c := exec.CommandContext(t.Context(), "bash", "-c", script)
		c.Env = env
		out, err := c.CombinedOutput()
		if exit := (*exec.ExitError)(nil); err != nil && !errors.As(err, &exit) { // what it prints tells whether it failed
			t.Fatal(err)
		}
		require.NotContains(t, string(out), password, "no output has a password")
		require.NotContains(t, string(out), "goroutine ")
		return string(out)
	}
}

// clients makes the buckets of docs/tools.md: one client
// is denied, another is not, and one was last limited by another definition.
func (s *service) clients(t *testing.T) {
	t.Helper()
	s.use(t, "api", "x-api-key:k-123", 10, perMinute, daily)
	s.use(t, "api", "ip:192.0.2.7", 6, perMinute, daily)
	s.use(t, "api", "ip:192.0.2.8", 1, perMinute, core.PerDay(5).WithName("daily"))
	s.use(t, "exports", "x-api-key:k-123|path:/report", 1, daily)
	s.use(t, "plans", "value:user:bob", 10, daily)
	s.use(t, "jobs", "x-api-key:k-9", 2, core.InFlight(2).WithName("work").WithMaxHold(10*time.Hour))
}

// docs/tools.md has a block that runs each command.
func TestThePageShowsEveryCommand(t *testing.T) {
	text, err := os.ReadFile(docs("tools.md"))
	require.NoError(t, err)
	var ran []string
	for _, b := range blocks.FindAllStringSubmatch(string(text), -1) {
		for _, name := range regexp.MustCompile(`\bratelimit ([a-z]+)`).FindAllStringSubmatch(b[2], -1) {
			if b[1] == "sh" {
				ran = append(ran, name[1])
			}
		}
	}
	for _, c := range newRoot().Commands() {
		if c.Name() != "version" {
			assert.Contains(t, ran, c.Name())
		}
	}
	assert.Len(t, newRoot().Commands(), 11, "ten, and version")
}
