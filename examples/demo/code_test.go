package main

import (
	"encoding/json"
	"net/http"
	"net/url"
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
		s := presets[(i+2)%len(presets)].Settings
		s.Headers = []string{"default", "legacy", "ietf", "draft6", "none"}[i]
		s.Cost = int64(i)
		policies[f.name] = s.policy()
		text, err := s.program(f.name)
		require.NoError(t, err)
		set.Program(f.name, text)
		set.File(f.name, "tell.go", "package "+f.name+"\n\nimport (\n\t\"encoding/json\"\n\t\"os\"\n)\n\n"+
			"func init() {\n\tif os.Getenv(\"PROGRAM\") == \""+f.name+"\" {\n\t\t_ = json.NewEncoder(os.Stdout).Encode(policy)\n\t\tos.Exit(0)\n\t}\n}\n")
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

func TestIntervalsAsGo(t *testing.T) {
	for d, want := range map[time.Duration]string{
		time.Second: "time.Second", 15 * time.Minute: "15 * time.Minute", 24 * time.Hour: "24 * time.Hour",
		core.Month: "core.Month", 1500 * time.Millisecond: "1500 * time.Millisecond", 1001 * time.Microsecond: "1001000 * time.Nanosecond",
	} {
		require.Equal(t, want, interval(d))
	}
}

// The curl commands do what they say, also for a name with quotes.
func TestCurlCommandsWork(t *testing.T) {
	if _, err := exec.LookPath("curl"); err != nil {
		t.Skip("needs curl on the PATH")
	}
	d := serve(t)
	call(t, d, http.MethodPost, "/api/settings", changed(t, map[string]any{"capacity": 3, "interval_ms": 3600e3}))
	status, text := call(t, d, http.MethodGet, "/api/code?framework=chi&user="+url.QueryEscape("o'hara"), nil)
	require.Equal(t, http.StatusOK, status)
	var c code
	require.NoError(t, json.Unmarshal([]byte(text), &c))
	require.Contains(t, c.Go, "Capacity: 3")
	call(t, d, http.MethodPost, "/api/settings", changed(t, nil))
	one, set, both := strings.Cut(c.Curl, "\n\n")
	require.True(t, both)
	_, err := exec.Command("sh", "-c", set).Output()
	require.NoError(t, err)
	require.EqualValues(t, 3, d.scene.Load().settings.Capacity)
	out, err := exec.Command("sh", "-c", one).Output()
	require.NoError(t, err)
	require.Contains(t, string(out), "200 OK")
	d.tellRequests()
	list, _ := d.history.latest()
	require.Equal(t, "o'hara", list[0].User)
}
