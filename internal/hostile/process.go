package hostile

import (
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"regexp"
	"slices"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/tokenbucket-go/ratelimit/internal/logtest"
	"github.com/tokenbucket-go/ratelimit/internal/redistest"
)

// AsProgram is a variable that has the binary of a test with Main be its
// program.
const AsProgram = "HOSTILE_RUNS_MAIN=1"

// Main is for TestMain of a program: it runs main if Start has started the
// binary, and otherwise the tests.
func Main(m *testing.M, main func()) {
	if slices.Contains(os.Environ(), AsProgram) {
		main()
		return
	}
	os.Exit(m.Run())
}

// Process is a program that runs.
type Process struct {
	Addr string // on which it serves
	Log  *logtest.Buffer

	command *exec.Cmd
	exited  chan struct{}
}

var listening = regexp.MustCompile(`listening on (?:http://)?(\S+)`)

// Start runs the program of the test's package on ports of its own, with a
// Redis at an address unless that is "", until the test ends. It returns when
// the program listens.
func Start(t *testing.T, redis string, env ...string) *Process {
	t.Helper()
	if redis != "" {
		env = append([]string{"REDIS_URL=redis://" + redis}, env...)
	}
	p := Launch(t, env...)
	require.Eventually(t, func() bool {
		if found := listening.FindStringSubmatch(p.Log.String()); found != nil {
			p.Addr = found[1]
		}
		return p.Addr != ""
	}, patience, poll, "the program does not listen")
	return p
}

// Fail runs the program with variables by which it must not start, and returns
// when it has ended with an error.
func Fail(t *testing.T, env ...string) *Process {
	t.Helper()
	p := Launch(t, env...)
	p.wait(t)
	require.NotZero(t, p.command.ProcessState.ExitCode(), "the program must not start")
	require.NotRegexp(t, listening, p.Log.String())
	return p
}

// Launch runs the program, with variables of its own, until the test ends.
func Launch(t *testing.T, env ...string) *Process {
	t.Helper()
	p := &Process{Log: new(logtest.Buffer), command: exec.Command(os.Args[0]), exited: make(chan struct{})}
	p.command.Env = append(os.Environ(), AsProgram, "ADDR=127.0.0.1:0", "ADMIN_ADDR=127.0.0.1:0", "TRUSTED_PROXIES=", "REDIS_URL=", "GIN_MODE=release")
	p.command.Env = append(p.command.Env, env...)
	p.command.Stdout, p.command.Stderr = p.Log, p.Log
	require.NoError(t, p.command.Start())
	go func() {
		_ = p.command.Wait()
		close(p.exited)
	}()
	t.Cleanup(func() {
		_ = p.command.Process.Kill()
		<-p.exited
		if t.Failed() {
			t.Log("the program wrote:\n", p.Log.String())
		}
	})
	return p
}

// Terminate sends SIGTERM.
func (p *Process) Terminate(t *testing.T) {
	t.Helper()
	require.NoError(t, p.command.Process.Signal(syscall.SIGTERM))
}

// Wait returns when the program has ended. It must say that all is well.
func (p *Process) Wait(t *testing.T) {
	t.Helper()
	p.wait(t)
	require.Zero(t, p.command.ProcessState.ExitCode(), "the program ends without an error")
}

func (p *Process) wait(t *testing.T) {
	t.Helper()
	select {
	case <-p.exited:
	case <-time.After(patience):
		t.Fatal("the program does not end")
	}
}

// Deploy runs the program, with variables of its own, as operators do, and sends
// requests that are answered soon.
func Deploy(t *testing.T, request func() *http.Request, env ...string) {
	t.Run("a shutdown under load cuts off nobody", func(t *testing.T) { shutdown(t, request, env) })
	t.Run("a wrong address of Redis ends the program", wrongRedis)
	t.Run("Redis lost and back", func(t *testing.T) { redisLost(t, request, env) })
}

// do sends a request to a process on a connection of its own.
func (p *Process) do(t *testing.T, r *http.Request) (status int, err error) {
	r = r.Clone(t.Context())
	r.URL.Scheme, r.URL.Host, r.Host, r.RequestURI = "http", p.Addr, p.Addr, ""
	r.Close = true
	res, err := Client(t, attackerIP).Do(r)
	if err != nil {
		return 0, err
	}
	defer res.Body.Close()
	if _, err := io.Copy(io.Discard, res.Body); err != nil {
		return res.StatusCode, fmt.Errorf("the answer was cut off: %w", err)
	}
	return res.StatusCode, nil
}

func shutdown(t *testing.T, request func() *http.Request, env []string) {
	p := Start(t, "", env...)
	var answered atomic.Int64
	var clients sync.WaitGroup
	for range 8 {
		clients.Go(func() {
			for {
				status, err := p.do(t, request())
				var refused *net.OpError
				switch {
				case err == nil && status < http.StatusInternalServerError:
					answered.Add(1)
				case status == 0 && (errors.As(err, &refused) || errors.Is(err, io.EOF)):
					return // the connection was not accepted any more
				default:
					t.Errorf("status %d, %v", status, err)
					return
				}
			}
		})
	}
	require.Eventually(t, func() bool { return answered.Load() > 50 }, patience, poll, "the premise: the app answers")
	p.Terminate(t)
	p.Wait(t)
	clients.Wait()
}

func wrongRedis(t *testing.T) {
	port, err := redistest.FreePort()
	require.NoError(t, err)
	for name, url := range map[string]string{"nobody listens": "redis://127.0.0.1:" + port, "no URL": "127.0.0.1:6379"} {
		p := Fail(t, "REDIS_URL="+url)
		require.Contains(t, p.Log.String(), "REDIS_URL", name)
	}
}

// While Redis is away each request gets an answer: by this process, or 503 of
// a policy that fails closed. Then Redis decides again.
func redisLost(t *testing.T, request func() *http.Request, env []string) {
	server := redistest.Start(t)
	p := Start(t, server.Addr, env...)
	answer := func() int {
		status, err := p.do(t, request())
		require.NoError(t, err)
		require.Truef(t, status < http.StatusInternalServerError || status == http.StatusServiceUnavailable, "status %d", status)
		return status
	}
	require.Less(t, answer(), http.StatusInternalServerError)
	server.Kill()
	for range 20 {
		answer()
	}
	server.Restart(t)
	keys := server.Client(t)
	require.Eventually(t, func() bool {
		answer()
		n, err := keys.DBSize(t.Context()).Result()
		return err == nil && n > 0
	}, patience, poll, "Redis is back, and gets no requests")
}
