package docs_test

import (
	"io"
	"net"
	"os/exec"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

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
