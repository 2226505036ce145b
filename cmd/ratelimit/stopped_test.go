package main

import (
	"bytes"
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/tokenbucket-go/ratelimit/cmd/ratelimit/internal/cli"
	"github.com/tokenbucket-go/ratelimit/core"
	"github.com/tokenbucket-go/ratelimit/internal/faultproxy"
	"github.com/tokenbucket-go/ratelimit/internal/redistest"
)

// TestMain is the command itself in a process that [process] starts.
func TestMain(m *testing.M) {
	if os.Getenv("BE_RATELIMIT") != "" {
		main()
	}
	os.Exit(m.Run())
}

// command is the command in a process of its own, and what it prints.
type command struct {
	*exec.Cmd

	out, errs bytes.Buffer
}

func startCommand(t *testing.T, in io.Reader, line ...string) *command {
	t.Helper()
	c := &command{Cmd: exec.CommandContext(t.Context(), os.Args[0], line...)}
	c.Env = append(os.Environ(), "BE_RATELIMIT=1")
	c.Stdin, c.Stdout, c.Stderr = in, &c.out, &c.errs
	require.NoError(t, c.Start())
	return c
}

// end sends signals until the command has ended, and returns its exit code:
// below 0 if the last one killed it.
func (c *command) end(t *testing.T, signals ...syscall.Signal) int {
	t.Helper()
	for _, s := range signals {
		require.NoError(t, c.Process.Signal(s))
	}
	done := make(chan error, 1)
	go func() { done <- c.Wait() }()
	select {
	case <-done:
	case <-time.After(30 * time.Second):
		t.Fatalf("%v does not end: %s", c.Args[1:], c.errs.String())
	}
	return c.ProcessState.ExitCode()
}

// keyOf is a key of one customer.
func keyOf(i int) string { return core.JoinKey("header:x-api-key:k-123", fmt.Sprintf("path:/%d", i)) }

// until waits until something is so.
func until(t *testing.T, so func() bool) {
	t.Helper()
	require.Eventually(t, so, 30*time.Second, time.Millisecond)
}

// A signal ends every command that takes time: it is no failure, and what was
// done is said.
func TestInterruptedCommandsSayWhatTheyHaveDone(t *testing.T) {
	server, target := redistest.Start(t), redistest.Start(t)
	s := &service{client: server.Client(t), addr: server.Addr, prefix: "ratelimit:"}
	s.open(t)
	const keys = 3000
	for i := range keys {
		s.use(t, keyOf(i), 1)
	}
	var asked atomic.Bool
	slow := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		asked.Store(true)
		<-r.Context().Done()
	}))
	t.Cleanup(slow.Close)

	calls := func(name string) func() bool {
		return func() bool {
			stats, err := s.client.Info(t.Context(), "commandstats").Result()
			require.NoError(t, err)
			return strings.Contains(stats, "cmdstat_"+name+":")
		}
	}
	keysOf := func(server *redistest.Server) int64 {
		n, err := server.Client(t).DBSize(t.Context()).Result()
		require.NoError(t, err)
		return n
	}
	_, port, _ := strings.Cut(server.Addr, ":")
	flags := []string{"-p", port, "-policies", "p.yaml", "-timeout", "5s", "-rate"}
	with := func(rate string, line ...string) []string { return append(append(line, flags...), rate) }
	for _, c := range []struct {
		name string
		line []string
		busy func() bool // it is at work
		says string
	}{
		{"list", with("100", "list", "api"), calls("scan"), `^ratelimit: interrupted: [\d,]+ keys? of api were looked at, 0 denied now\.\n$`},
		{"find", with("100", "find", "k-123"), calls("scan"), `^ratelimit: interrupted: [\d,]+ keys? looked at, with [\d,]+ of the customer\.\n$`},
		{"doctor", with("100", "doctor"), calls("scan"), `^ratelimit: interrupted: [\d,]+ (of 3,\d\d\d )?keys were looked at, after \d+ other findings, \d of them faults\.\n$`},
		{"copy", []string{"copy", "-rate", "100", "redis://" + server.Addr, "redis://" + target.Addr}, func() bool { return keysOf(target) > 0 },
			`^ratelimit: interrupted: [\d,]+ keys? copied to Redis at ` + target.Addr + `\n$`},
		{"credit -all", with("1000", "credit", "api", "-all", "daily", "1", "-yes"), func() bool {
			res, err := s.api.Peek(t.Context(), keyOf(0))
			require.NoError(t, err)
			return res.Limits()[1].Remaining == 20
		}, `^ratelimit: interrupted: [\d,]+ of 3,000 keys were credited: those up to \S+, in the order of their names\.\n$`},
		{"forget", with("1000", "forget", "k-123"), func() bool { return keysOf(server) < keys-100 }, `^ratelimit: interrupted: \d+ of 3,?000 keys were deleted\.\n$`},
		{"exceptions", with("100", "exceptions"), calls("scan"), `^ratelimit: interrupted: [\d,]+ (of [\d,]+ )?keys were looked at\.\n$`},
		{"exceptions -replicas", with("0", "exceptions", "api", "-replicas", slow.URL), asked.Load, `^ratelimit: interrupted\n$`},
		{"get -watch", with("0", "get", "-watch", "api", "x"), calls("evalsha"), `^ratelimit: interrupted\n$`},
		{"top -watch", []string{"top", "-watch", slow.URL}, asked.Load, `^ratelimit: interrupted\n$`},
	} {
		t.Run(c.name, func(t *testing.T) {
			require.NoError(t, s.client.ConfigResetStat(t.Context()).Err())
			asked.Store(false)
			p := startCommand(t, nil, c.line...)
			until(t, c.busy)
			assert.Equal(t, 130, p.end(t, syscall.SIGINT), p.errs.String())
			assert.Regexp(t, c.says, p.errs.String())
			assert.NotContains(t, p.out.String()+p.errs.String(), "can't be read", "it is no failure")
		})
	}
}

// A change of one key that is begun is ended before the command is.
func TestInterruptedChangeIsEnded(t *testing.T) {
	s := own(t)
	s.use(t, "ann", 3)
	proxy := faultproxy.New(t, s.addr)
	proxy.SetLatency(500 * time.Millisecond)
	host, port, _ := strings.Cut(proxy.Addr, ":")
	p := startCommand(t, nil, "reset", "-h", host, "-p", port, "-timeout", "5s", "-policies", "p.yaml", "api", "ann")
	until(t, func() bool { return s.client.Exists(t.Context(), "ratelimit:api:ann").Val() == 0 }) // the reply is under way
	assert.Equal(t, 130, p.end(t, syscall.SIGINT))
	assert.Contains(t, p.out.String(), "is reset: every limit is full")
	assert.Equal(t, "ratelimit: interrupted: The change is made.\n", p.errs.String())
}

// An interrupted change says whether Redis did it, as far as that is known.
func TestWhatIsKnownOfAnInterruptedChange(t *testing.T) {
	var l live
	flags := flag.NewFlagSet("", flag.ContinueOnError)
	l.define(flags)
	_, port, _ := strings.Cut(own(t).addr, ":")
	require.NoError(t, flags.Parse([]string{"-p", port}))
	d, err := l.open(t.Context(), cli.Streams{Err: io.Discard, Env: func(string) string { return "" }})
	require.NoError(t, err)
	defer d.Close()
	silent := errors.New("no answer within 1 s")
	ctx, interrupt := context.WithCancel(t.Context())
	require.NoError(t, d.change(ctx, func(context.Context) error { return nil }))
	require.EqualError(t, d.change(ctx, func(context.Context) error { return silent }), d.Where+": no answer within 1 s")
	err = d.change(ctx, func(begun context.Context) error {
		interrupt()
		require.NoError(t, begun.Err(), "what is begun is ended")
		return silent
	})
	require.ErrorContains(t, err, "Whether Redis did it is not known: "+d.Where+": no answer within 1 s")
	err = d.change(ctx, func(context.Context) error { panic("nothing is begun any more") })
	require.ErrorContains(t, err, "Nothing was changed.")
}

// A command that waits for input ends too, and SIGTERM has its own exit code.
func TestCommandsThatReadAreInterrupted(t *testing.T) {
	files(t, map[string]string{"p.yaml": good})
	for line, says := range map[string]string{
		"replay -limit 1/s -": `^ratelimit: interrupted: 0 lines were read\.\n$`, "check -": `^ratelimit: interrupted\n$`, "check p.yaml -": `^ratelimit: interrupted\n$`,
	} {
		in, silent, err := os.Pipe()
		require.NoError(t, err)
		p := startCommand(t, in, strings.Fields(line)...)
		_, err = silent.Write(bytes.Repeat([]byte("\n"), 1<<17)) // more than a pipe holds: the command reads
		require.NoError(t, err)
		assert.Equal(t, 143, p.end(t, syscall.SIGTERM), line)
		assert.Regexp(t, says, p.errs.String(), line)
		require.NoError(t, errors.Join(in.Close(), silent.Close()))
	}
}
