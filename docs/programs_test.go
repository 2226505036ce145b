package docs_test

import (
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/tokenbucket-go/ratelimit/internal/redistest"
)

// programPages are the pages whose whole programs are run. What follows a program decides how:
//
//   - a text block: the program prints it;
//   - an sh block and a text block: the program listens on localhost:8080, and the commands print the text.
var programPages = []string{"adapters.md", "choosing-limits.md", "failure.md", "headers.md", "how-it-works.md", "introducing-a-limit.md", "keys-and-trust.md", "language-models.md"}

// stopped is added to each program. The clock of its MemoryStore stands still, so that no number depends on the machine.
const stopped = `package main

import (
	"time"

	"github.com/tokenbucket-go/ratelimit/core"
	"github.com/tokenbucket-go/ratelimit/core/store"
)

func stopped() store.ClockOption {
	return core.WithClock(func() time.Time { return time.Date(2026, time.January, 1, 0, 0, 0, 0, time.UTC) })
}
`

var anyFence = regexp.MustCompile("(?ms)^```(\\w+)\n(.*?)^```")

func TestProgramsPrintWhatThePageShows(t *testing.T) {
	t.Parallel()
	dir, err := os.MkdirTemp(".", "_programs") // within the module, and no package of ./...
	require.NoError(t, err)
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	for _, page := range programPages {
		t.Run(page, func(t *testing.T) {
			text, err := os.ReadFile(page)
			require.NoError(t, err)
			found := anyFence.FindAllStringSubmatch(string(text), -1)
			programs := 0
			for i, block := range found {
				if block[1] != "go" || !strings.HasPrefix(block[2], "package main") {
					continue
				}
				programs++
				require.Less(t, i+1, len(found), "a program is followed by what it prints, or by commands")
				source := filepath.Join(dir, strings.TrimSuffix(page, ".md")+strconv.Itoa(i))
				addr := freeAddr(t)
				binary := build(t, source, strings.ReplaceAll(block[2], "localhost:8080", addr))
				if found[i+1][1] == "text" {
					out, err := exec.Command(binary).Output()
					require.NoError(t, err)
					require.Equal(t, found[i+1][2], string(out))
					continue
				}
				require.Less(t, i+2, len(found), "commands are followed by what they print")
				require.Equal(t, []string{"sh", "text"}, []string{found[i+1][1], found[i+2][1]}, "what follows a program")
				serve(t, binary, addr)
				require.Equal(t, strings.TrimSpace(found[i+2][2]), run(t, strings.ReplaceAll(found[i+1][2], "localhost:8080", addr)))
			}
			require.NotZero(t, programs, "the page shows a program")
		})
	}
}

// build returns the program whose main.go is source.
func build(t *testing.T, dir, source string) (binary string) {
	t.Helper()
	source = strings.ReplaceAll(source, "core.NewMemoryStore()", "core.NewMemoryStore(stopped())")
	require.NoError(t, os.Mkdir(dir, 0o700))
	require.NoError(t, os.WriteFile(filepath.Join(dir, "main.go"), []byte(source), 0o600))
	require.NoError(t, os.WriteFile(filepath.Join(dir, "stopped.go"), []byte(stopped), 0o600))
	binary = filepath.Join(t.TempDir(), "program")
	out, err := exec.Command("go", "build", "-o", binary, "./"+dir).CombinedOutput()
	require.NoError(t, err, "%s", out)
	return binary
}

// serve runs the program until the test ends, and returns when it listens on addr.
func serve(t *testing.T, binary, addr string) {
	t.Helper()
	program := exec.Command(binary)
	program.Stderr = t.Output()
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

// run returns what the commands print. The time at which a server answered is replaced.
func run(t *testing.T, commands string) string {
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
