package redistest

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
)

// Server is a redis-server of one test, which can kill, pause and restart it.
type Server struct {
	Addr string

	port  string
	args  []string
	dir   string
	pid   int
	shell *exec.Cmd
	stdin io.Closer
}

// Start runs a server with additional arguments until the test ends.
func Start(t testing.TB, args ...string) *Server {
	t.Helper()
	s, err := start(args...)
	if err != nil {
		Unavailable(t, err)
	}
	t.Cleanup(s.stop)
	return s
}

// start runs a server on a free port and waits until it answers. If another
// process takes the port first, start tries another port.
func start(args ...string) (*Server, error) {
	var failed error
	for range 5 {
		port, err := FreePort()
		if err != nil {
			return nil, err
		}
		s := &Server{Addr: net.JoinHostPort("127.0.0.1", port), port: port, args: args}
		if failed = s.run(); failed == nil {
			return s, nil
		}
		s.stop()
	}
	return nil, failed
}

// untilInputEnds runs a program, prints its process ID, and kills it when
// standard input ends. The kernel ends it when the process that holds the other
// end dies, in whatever way.
const untilInputEnds = `dir=$1; shift
"$@" >/dev/null 2>&1 & server=$!
echo $server
read _
kill -9 $server; wait $server; rm -rf "$dir"`

func (s *Server) run() error {
	binary, err := exec.LookPath("redis-server")
	if err != nil {
		return err
	}
	if s.dir, err = os.MkdirTemp("", "redistest"); err != nil {
		return err
	}
	args := append([]string{"-c", untilInputEnds, "sh", s.dir, binary}, s.files()...)
	args = append(args, "--port", s.port, "--bind", "127.0.0.1", "--dir", s.dir, "--logfile", "server.log")
	if !s.sentinel() {
		args = append(args, "--save", "", "--repl-diskless-sync-delay", "0")
	}
	s.shell = exec.Command("sh", append(args, s.args...)...)
	if s.stdin, err = s.shell.StdinPipe(); err != nil {
		return err
	}
	out, err := s.shell.StdoutPipe()
	if err != nil {
		return err
	}
	if err := s.shell.Start(); err != nil {
		return err
	}
	line, err := bufio.NewReader(out).ReadString('\n')
	if err != nil {
		return err
	}
	if s.pid, err = strconv.Atoi(strings.TrimSpace(line)); err != nil {
		return err
	}
	return s.ready()
}

// files returns the configuration file of a server that writes its
// configuration, as Sentinel does.
func (s *Server) files() []string {
	if s.sentinel() {
		path := filepath.Join(s.dir, "sentinel.conf")
		if os.WriteFile(path, nil, 0o600) == nil {
			return []string{path}
		}
	}
	return nil
}

func (s *Server) sentinel() bool { return len(s.args) > 0 && s.args[0] == "--sentinel" }

// ready waits until the server logs that it serves its port. An answer proves
// nothing: another server may have the port.
func (s *Server) ready() error {
	for deadline := time.Now().Add(20 * time.Second); ; time.Sleep(5 * time.Millisecond) {
		log, err := os.ReadFile(filepath.Join(s.dir, "server.log"))
		switch said := string(log); {
		case strings.Contains(said, "Ready to accept connections"), strings.Contains(said, "Sentinel ID is"):
			return nil
		case strings.Contains(said, "Address already in use"):
			return fmt.Errorf("redis-server: port %s is taken", s.port)
		case time.Now().After(deadline):
			return errors.Join(fmt.Errorf("redis-server at %s is not ready:\n%s", s.Addr, said), err)
		}
	}
}

// Client returns a client of this server.
func (s *Server) Client(t testing.TB) *redis.Client {
	t.Helper()
	c := redis.NewClient(&redis.Options{Addr: s.Addr, Protocol: protocol()})
	t.Cleanup(func() { _ = c.Close() })
	return c
}

// Kill ends the server as a crash does.
func (s *Server) Kill() { s.stop() }

// Restart starts a killed server again, empty, on the same port.
func (s *Server) Restart(t testing.TB) {
	t.Helper()
	if err := s.run(); err != nil {
		t.Fatal(err)
	}
}

// Pause stops the server's process: connections stay open and nothing answers.
func (s *Server) Pause() { s.signal("-STOP") }

// Resume continues a paused server.
func (s *Server) Resume() { s.signal("-CONT") }

// signal sends a signal that package syscall lacks on Windows.
func (s *Server) signal(signal string) { _ = exec.Command("kill", signal, strconv.Itoa(s.pid)).Run() }

// stop kills the server with SIGKILL and waits for its end.
func (s *Server) stop() {
	if s.stdin != nil {
		_ = s.stdin.Close()
		_ = s.shell.Wait()
		s.stdin = nil
	}
}
