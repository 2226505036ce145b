package main

import (
	"encoding/json"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/tokenbucket-go/ratelimit/core"
	"github.com/tokenbucket-go/ratelimit/internal/onebinary"
)

// The programs to copy compile, and their policy is the one in force.
func TestProgramsHaveThePolicyInForce(t *testing.T) {
	set := onebinary.New("github.com/tokenbucket-go/ratelimit/examples/demo", "_shown")
	policies := map[string]core.Policy{}
	for i, f := range frameworks {
		s := presets[(i+1)%len(presets)].Settings
		s.Headers = []string{"default", "legacy", "draft8", "draft6", "none"}[i]
		s.Cost = int64(i)
		policies[f.name] = s.policy("demo")
		c, err := s.code(f.name, []place{{}, {Redis: "redis://localhost:6379"}, {Redis: "redis://localhost:6379", OnFailure: true}}[i%3])
		require.NoError(t, err)
		require.Contains(t, c.Program, strings.ReplaceAll(c.Lines, "\n", "\n\t"), "the lines shown are the program's")
		set.Program(f.name, strings.Replace(c.Program, "\tlimiter := ", "\ttell(policy)\n\tlimiter := ", 1))
		set.File(f.name, "tell.go", "package "+f.name+"\n\nimport (\n\t\"encoding/json\"\n\t\"os\"\n\n\t\"github.com/tokenbucket-go/ratelimit/core\"\n)\n\n"+
			"func tell(p core.Policy) {\n\t_ = json.NewEncoder(os.Stdout).Encode(p)\n\tos.Exit(0)\n}\n")
	}
	for _, f := range frameworks {
		c, err := defaults.code(f.name, place{})
		require.NoError(t, err)
		set.Program(f.name+"first", c.Program)
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

// The limit at the start is a line for the bucket, one for each address, so that no client locks out another, and what uses it.
func TestTheFirstLimitIsShort(t *testing.T) {
	for _, f := range frameworks {
		c, err := defaults.code(f.name, place{})
		require.NoError(t, err)
		lines, use, _ := strings.Cut(c.Lines, ".PerIP(bucket)\n")
		require.Equal(t, "bucket := core.Per(1, time.Second).WithBurst(10)\nlimit := "+adapters[f.name].Adapter, lines)
		require.LessOrEqual(t, strings.Count(use, "\n"), 1, use)
		require.Regexp(t, `\.Use\(limit\)$|limit\(http.HandlerFunc\(hello\)\)\)$`, use)
		require.Equal(t, f.name, c.Framework)
	}
}

// Each chapter shows the lines that it is about.
func TestChaptersShowTheirLines(t *testing.T) {
	d := serve(t)
	for stage, lines := range map[string][]string{
		"share": {`redisstore.Open("redis://localhost:6379")`, "chilimit.ByIP()"},
		"lose":  {"redisstore.Open(", "OnFailure: core.FailLocal}", "core.FailOpen, core.FailClosed"},
	} {
		status, text := call(t, d, http.MethodGet, "/api/code/"+stage+"?framework=chi", nil)
		require.Equal(t, http.StatusOK, status)
		var c code
		require.NoError(t, json.Unmarshal([]byte(text), &c))
		for _, line := range lines {
			require.Contains(t, c.Lines, line, stage)
		}
	}
}

func TestIntervalsAsGo(t *testing.T) {
	for d, want := range map[time.Duration]string{
		time.Second: "time.Second", 15 * time.Minute: "15*time.Minute", 24 * time.Hour: "24*time.Hour",
		core.Month: "core.Month", 1500 * time.Millisecond: "1500*time.Millisecond", 1001 * time.Microsecond: "1001000*time.Nanosecond",
	} {
		require.Equal(t, want, interval(d))
	}
}
