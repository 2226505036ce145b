//go:build !js

package main

import (
	"encoding/json"
	"go/format"
	"maps"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/tokenbucket-go/ratelimit/core"
	"github.com/tokenbucket-go/ratelimit/internal/onebinary"
)

// shown are the ways in which chapters show their code.
var shown = []struct {
	redis     string
	onFailure bool
}{{}, {redis: "redis://localhost:6379"}, {"redis://localhost:6379", true}}

// The programs to copy are as gofmt writes them.
func TestProgramsAreFormatted(t *testing.T) {
	for _, p := range append(presets, preset{ID: "default", Settings: defaults}) {
		for name, f := range frameworks {
			for _, how := range shown {
				for cost := range int64(3) {
					s := p.Settings
					s.Cost, s.Headers = cost, []string{"default", "none", "draft6"}[cost]
					c := s.code(f, how.redis, how.onFailure)
					formatted, err := format.Source([]byte(c.Program))
					require.NoError(t, err, c.Program)
					require.Equal(t, string(formatted), c.Program, "%s for %s, %v", p.ID, name, how)
				}
			}
		}
	}
}

// tell is a file that has a program print its policy.
const tell = `

import (
	"encoding/json"
	"os"

	"github.com/tokenbucket-go/ratelimit/core"
)

func tell(p core.Policy) {
	_ = json.NewEncoder(os.Stdout).Encode(p)
	os.Exit(0)
}
`

// The programs to copy compile, and their policy is the one in force.
func TestProgramsHaveThePolicyInForce(t *testing.T) {
	set := onebinary.New("github.com/tokenbucket-go/ratelimit/examples/demo", "_shown")
	policies := map[string]core.Policy{}
	for i, name := range slices.Sorted(maps.Keys(frameworks)) {
		s := presets[(i+1)%len(presets)].Settings
		s.Headers = []string{"default", "legacy", "draft8", "draft6", "none"}[i]
		s.Cost = int64(i)
		policies[name] = s.policy("demo")
		how := shown[i%3]
		c := s.code(frameworks[name], how.redis, how.onFailure)
		require.Contains(t, c.Program, strings.ReplaceAll(c.Lines, "\n", "\n\t"), "the lines shown are the program's")
		set.Program(name, strings.Replace(c.Program, "\tlimiter := ", "\ttell(policy)\n\tlimiter := ", 1))
		set.File(name, "tell.go", "package "+name+tell)
		set.Program(name+"first", defaults.code(frameworks[name], "", false).Program)
	}
	binary := filepath.Join(t.TempDir(), "programs")
	require.NoError(t, set.Build(binary))
	for name, policy := range policies {
		program := exec.Command(binary)
		program.Env = append(os.Environ(), "PROGRAM="+name)
		out, err := program.Output()
		require.NoError(t, err, name)
		want, err := json.Marshal(policy)
		require.NoError(t, err)
		require.JSONEq(t, string(want), string(out), name)
	}
}

// The limit at the start is a line for the bucket, one for each address, so that
// no client locks out another, and what uses it.
func TestTheFirstLimitIsShort(t *testing.T) {
	for _, f := range frameworks {
		lines, use, _ := strings.Cut(defaults.code(f, "", false).Lines, ".PerIP(bucket)\n")
		require.Equal(t, "bucket := core.Per(1, time.Second).WithBurst(10)\nlimit := "+f.adapter, lines)
		require.LessOrEqual(t, strings.Count(use, "\n"), 1, use)
		require.Regexp(t, `\.Use\(limit\)$|limit\(http.HandlerFunc\(hello\)\)\)$`, use)
	}
}

// Each chapter shows the lines that it is about.
func TestChaptersShowTheirLines(t *testing.T) {
	d := start(t, inProcess("test"))
	for chapter, lines := range map[string][]string{
		"share": {`redisstore.Open("redis://localhost:6379")`, "chilimit.ByIP()"},
		"lose":  {"redisstore.Open(", "OnFailure: core.FailLocal}", "core.FailOpen, core.FailClosed"},
	} {
		text := asks(t, d, http.StatusOK, http.MethodGet, "/api/code/"+chapter+"?framework=chi", nil)
		for _, line := range lines {
			require.Contains(t, read[code](t, text).Lines, line, chapter)
		}
	}
	asks(t, d, http.StatusNotFound, http.MethodGet, "/api/code/share?framework=rails", nil)
}

func TestIntervalsAsGo(t *testing.T) {
	for d, want := range map[time.Duration]string{
		time.Second: "time.Second", 15 * time.Minute: "15*time.Minute", 24 * time.Hour: "24*time.Hour",
		core.Month: "core.Month", 1500 * time.Millisecond: "1500*time.Millisecond",
		1001 * time.Microsecond: "1001*time.Microsecond", 1001: "1001*time.Nanosecond",
	} {
		require.Equal(t, want, interval(d))
	}
}
