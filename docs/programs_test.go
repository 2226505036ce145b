package docs_test

import (
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/tokenbucket-go/ratelimit/core"
	"github.com/tokenbucket-go/ratelimit/core/policyfile"
	"github.com/tokenbucket-go/ratelimit/internal/redistest"
)

// programPages are the pages whose whole programs are run. What follows a
// program decides how:
//
//   - a text block: the program prints it;
//   - an sh block and a text block: the program listens on localhost:8080, and
//     the commands print the text.
var programPages = []string{"limits.md", "headers.md", "keys-and-trust.md", "language-models.md", "errors.md"}

// stopped follows the package clause of a file of each program. The clock of
// its MemoryStore stands still, so that no number depends on the machine.
const stopped = `

import (
	"time"

	"github.com/tokenbucket-go/ratelimit/core"
	"github.com/tokenbucket-go/ratelimit/core/store"
)

func stopped() store.Option {
	return core.WithClock(func() time.Time { return time.Date(2026, time.January, 1, 0, 0, 0, 0, time.UTC) })
}
`

func TestProgramsPrintWhatThePageShows(t *testing.T) {
	t.Parallel()
	for _, page := range programPages {
		t.Run(page, func(t *testing.T) {
			found := anyFence.FindAllStringSubmatch(string(read(t, page)), -1)
			blocks, programs := 0, 0 // of Go
			for i, block := range found {
				if block[1] != "go" {
					continue
				}
				blocks++
				if !strings.HasPrefix(block[2], "package main") {
					continue
				}
				programs++
				require.Less(t, i+1, len(found), "a program is followed by what it prints, or by commands")
				addr := freeAddr(t)
				program := command(t, nameOf(page, blocks-1), addr)
				if found[i+1][1] == "text" {
					out, err := program.Output()
					require.NoError(t, err)
					require.Equal(t, found[i+1][2], string(out))
					continue
				}
				require.Less(t, i+2, len(found), "commands are followed by what they print")
				require.Equal(t, []string{"sh", "text"}, []string{found[i+1][1], found[i+2][1]}, "what follows a program")
				serve(t, program, addr)
				require.Equal(t, strings.TrimSpace(found[i+2][2]), printed(t, strings.ReplaceAll(found[i+1][2], "localhost:8080", addr)))
			}
			require.NotZero(t, programs, "the page shows a program")
		})
	}
}

// serve runs the program until the test ends, and returns when it listens on
// addr.
func serve(t *testing.T, program *exec.Cmd, addr string) {
	t.Helper()
	serveTo(t, program, addr, t.Output())
}

// serveTo is serve, and what the program logs goes to said.
func serveTo(t *testing.T, program *exec.Cmd, addr string, said io.Writer) {
	t.Helper()
	program.Stderr = said
	require.NoError(t, program.Start())
	t.Cleanup(func() {
		_ = program.Process.Kill()
		_ = program.Wait()
	})
	require.Eventually(t, func() bool {
		conn, err := net.Dial("tcp", addr)
		if err == nil {
			_ = conn.Close()
		}
		return err == nil
	}, time.Minute, 10*time.Millisecond, "the program does not listen")
}

// printed returns what the commands print. The time at which a server answered
// is replaced.
func printed(t *testing.T, commands string) string {
	t.Helper()
	for _, needed := range []string{"sh", "curl"} {
		if _, err := exec.LookPath(needed); err != nil {
			t.Skip(err)
		}
	}
	shell := exec.Command("sh", "-e", "-c", commands)
	shell.Stderr = t.Output()
	out, err := shell.Output()
	require.NoError(t, err)
	text := strings.ReplaceAll(string(out), "\r\n", "\n")
	return regexp.MustCompile(`(?m)^Date: .*$`).ReplaceAllString(strings.TrimSpace(text), "Date: Thu, 01 Jan 2026 00:00:00 GMT")
}

// freeAddr returns an address on which nobody listens.
func freeAddr(t *testing.T) string {
	t.Helper()
	port, err := redistest.FreePort()
	require.NoError(t, err)
	return net.JoinHostPort("localhost", port)
}

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

// The file of policies in limits.md makes limiters, and has every field.
func TestPoliciesOnThePageLoad(t *testing.T) {
	shown := blocks(string(read(t, "limits.md")), "yaml")[0]
	path := filepath.Join(t.TempDir(), "policies.yaml")
	require.NoError(t, os.WriteFile(path, []byte(shown), 0o600))
	policies, err := policyfile.LoadFile(path)
	require.NoError(t, err)
	for _, policy := range policies {
		_, err := core.NewLimiter(core.NewMemoryStore(), policy)
		require.NoError(t, err)
	}
	for _, field := range reflect.VisibleFields(reflect.TypeFor[core.Policy]()) {
		name, _, _ := strings.Cut(field.Tag.Get("json"), ",")
		assert.Regexp(t, `(?m)^  [ -] `+name+`: `, shown, "limits.md shows the field %s", name)
	}
}

func TestMistakesAreToldAsOnThePage(t *testing.T) {
	want := blocks(string(read(t, "limits.md")), "text")[2]
	t.Chdir(t.TempDir())
	wrong := "policies:\n  - name: search\n    limits:\n      - ten/min\n"
	require.NoError(t, os.WriteFile("policies.yaml", []byte(wrong), 0o600))
	_, err := policyfile.LoadFile("policies.yaml")
	require.EqualError(t, err, strings.TrimSpace(want))
}
