package docs_test

import (
	"os"
	"os/exec"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/tokenbucket-go/ratelimit/internal/redistest"
)

// The commands of failure.md stop a Redis, and the example answers every
// request as the page says.
func TestOutageOnTheFailurePage(t *testing.T) {
	t.Parallel()
	_, commands, found := strings.Cut(string(read(t, "failure.md")), "```sh\n")
	require.True(t, found)
	commands, _, _ = strings.Cut(commands, "```")
	for _, needed := range []string{"sh", "curl", "redis-cli"} {
		if _, err := exec.LookPath(needed); err != nil {
			t.Skip(err)
		}
	}
	b, err := shown()
	require.NoError(t, err)
	server, addr, dir := redistest.Start(t), freeAddr(t), t.TempDir()
	port := server.Addr[strings.LastIndex(server.Addr, ":")+1:]
	// The commands come slowly on a busy machine, so Redis pauses for longer.
	// Requests before make the connection, which may take longer than the
	// timeout and count as a failure. When many in a row are answered at once,
	// for longer than an open breaker's pause, Redis decides and no failure
	// counts.
	warm := "while [ ${n:-0} -lt 15 ]; do case $(curl -s -o /dev/null -w '%{time_total}' " + addr + "/) in 0.0*) n=$((n+1));; *) n=0;; esac; sleep 0.1; done\n"
	for shown, run := range map[string]string{
		"go build -o http-example ./examples/http":            "ln -s " + b.programs + " http-example",
		"REDIS_URL=redis://localhost:6379 ./http-example &\n": "REDIS_URL=redis://" + server.Addr + " ADDR=" + addr + " ADMIN_ADDR=localhost:0 ./http-example &\n",
		"localhost:8080":                    addr,
		"redis-cli CLIENT PAUSE 5000 ALL\n": warm + "redis-cli -p " + port + " CLIENT PAUSE 20000 ALL >&2\n",
	} {
		require.Contains(t, commands, shown)
		commands = strings.ReplaceAll(commands, shown, run)
	}
	shell := exec.Command("sh", "-e", "-c", commands)
	shell.Dir, shell.Stderr = dir, t.Output()
	shell.Env = append(os.Environ(), "PROGRAM=example_http")
	out, err := shell.Output()
	require.NoError(t, err)

	lines := regexp.MustCompile(`(?m)^404 (\d+\.\d+)$`).FindAllStringSubmatch(string(out), -1)
	require.Len(t, lines, 40, "every request is answered with 404:\n%s", out)
	waited := 0
	for i, line := range lines {
		seconds, err := strconv.ParseFloat(line[1], 64)
		require.NoError(t, err)
		if seconds >= 0.1 {
			waited++
		} else if i < 4 {
			t.Errorf("request %d waited %v s, want the store's timeout: the breaker needs five failures, and none was before", i+1, seconds)
		}
	}
	require.Greater(t, waited, 5, "while the breaker is open, a request tries Redis:\n%s", out)
}
