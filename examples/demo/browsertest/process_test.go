package browsertest

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/textproto"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

// process is a running demo.
type process struct {
	t    *testing.T
	addr string
	url  string
	line string // that it printed when it was ready
	kill func() // as kill -9 does
	said *buffer

	files *files // not nil: it is no process, but in a page
}

// start runs a demo on a port of its own until the test ends. Its buckets are its own, unless flags say where they are.
func start(t *testing.T, flags ...string) *process {
	t.Helper()
	if len(flags) == 0 && redisAtUsualPlace() {
		flags = []string{"-redis-host", ""} // it would use that one
	}
	return startAt(t, "127.0.0.1:0", flags...)
}

// startAt is start on an address.
func startAt(t *testing.T, addr string, flags ...string) *process {
	t.Helper()
	cmd := exec.Command(program, append([]string{"-addr", addr}, flags...)...)
	killed := false
	var complaints, said buffer
	cmd.Stderr = &complaints
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	ready, read := make(chan string, 1), make(chan struct{})
	go func() {
		defer close(read)
		line := ""
		for lines := bufio.NewScanner(out); lines.Scan(); {
			_, _ = said.Write([]byte(lines.Text() + "\n"))
			if strings.HasPrefix(lines.Text(), "demo: http://") {
				line = lines.Text()
			} else if strings.HasPrefix(lines.Text(), "Stop ") {
				ready <- line
			}
		}
	}()
	t.Cleanup(func() {
		_ = cmd.Process.Signal(syscall.SIGTERM)
		killer := time.AfterFunc(patience, func() { _ = cmd.Process.Kill() })
		<-read
		if err := cmd.Wait(); err != nil && !killed {
			t.Errorf("the demo ended with: %v", err)
		}
		killer.Stop()
		if s := complaints.String(); strings.Contains(s, "panic") || strings.Contains(s, "DATA RACE") {
			t.Errorf("the demo complained:\n%s", s)
		}
	})
	select {
	case line := <-ready:
		url, _, _ := strings.Cut(strings.TrimPrefix(line, "demo: "), ",")
		return &process{t: t, url: url, addr: strings.TrimPrefix(url, "http://"), line: line, said: &said, kill: func() { killed = true; _ = cmd.Process.Kill(); <-read }}
	case <-read:
	case <-time.After(patience):
	}
	t.Fatalf("the demo did not start:\n%s", complaints.String())
	return nil
}

// buffer is a bytes.Buffer for two goroutines.
type buffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (b *buffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.b.Write(p)
}

func (b *buffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.b.String()
}

func redisAtUsualPlace() bool {
	c, err := net.DialTimeout("tcp", "localhost:6379", time.Second)
	if err != nil {
		return false
	}
	_ = c.Close()
	return true
}

// onRedis starts a redis-server for the test and returns the flags that lead to it.
func onRedis(t *testing.T) []string {
	t.Helper()
	flags, _ := redisServer(t)
	return flags
}

// redisServer is onRedis, with a function that kills the server before the test ends.
func redisServer(t *testing.T, options ...string) (flags []string, kill func()) {
	t.Helper()
	if _, err := exec.LookPath("redis-server"); err != nil {
		t.Skip("needs redis-server on the PATH")
	}
	for range 5 {
		_, port, _ := net.SplitHostPort(freeAddr(t))
		cmd := exec.Command("redis-server", append([]string{"--port", port, "--bind", "127.0.0.1", "--save", "", "--dir", t.TempDir()}, options...)...)
		out, err := cmd.StdoutPipe()
		if err != nil {
			t.Fatal(err)
		}
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		ready, read := make(chan bool, 1), make(chan struct{})
		go func() {
			defer close(read)
			for lines := bufio.NewScanner(out); lines.Scan(); {
				if strings.Contains(strings.ToLower(lines.Text()), "ready to accept connections") {
					select {
					case ready <- true:
					default:
					}
				}
			}
		}()
		stop := sync.OnceFunc(func() {
			_ = cmd.Process.Kill()
			<-read
			_ = cmd.Wait()
		})
		select {
		case <-ready:
			t.Cleanup(stop)
			return []string{"-redis-host", "127.0.0.1", "-redis-port", port}, stop
		case <-read: // someone took the port meanwhile
		case <-time.After(patience):
		}
		stop()
	}
	t.Fatal("redis-server did not start")
	return nil, nil
}

// freeAddr is an address on which nobody listens at the moment.
func freeAddr(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	return l.Addr().String()
}

// decision is what the server's log has of a request, as far as the tests look at it.
type decision struct {
	ID        int
	Stage     string
	Status    int
	Remaining int
	Retry     float64 `json:"retry_ms"`
}

// log is the decisions on a stage.
func (p *process) log(stage string) (list []decision) {
	p.t.Helper()
	var all []decision
	if err := json.Unmarshal([]byte(p.call(http.MethodGet, "/api/log", nil)), &all); err != nil {
		p.t.Fatal(err)
	}
	for _, d := range all {
		if d.Stage == stage {
			list = append(list, d)
		}
	}
	return list
}

// hour are settings whose bucket doesn't refill while a test looks.
var hour = map[string]any{"interval_ms": 3_600_000}

// set changes settings of the first picture past the page.
func (p *process) set(settings map[string]any) { p.post("/api/settings/drain", settings) }

func (p *process) post(path string, body any) { p.call(http.MethodPost, path, body) }

// call asks the demo past the page.
func (p *process) call(method, path string, body any) (answer string) {
	p.t.Helper()
	status := 0
	if p.files != nil {
		status, answer = p.files.ask(method, path, body)
	} else {
		text, _ := json.Marshal(body)
		q, err := http.NewRequest(method, p.url+path, bytes.NewReader(text))
		if err != nil {
			p.t.Fatal(err)
		}
		resp, err := http.DefaultClient.Do(q)
		if err != nil {
			p.t.Fatal(err)
		}
		defer resp.Body.Close()
		all, _ := io.ReadAll(resp.Body)
		status, answer = resp.StatusCode, string(all)
	}
	if status >= 300 {
		p.t.Fatalf("%s: %d: %s", path, status, answer)
	}
	return answer
}

// ask sends a limited request as curl would, and returns the response's header lines as they came.
func (p *process) ask(framework, user string) (status int, header []string) {
	p.t.Helper()
	c, err := net.Dial("tcp", p.addr)
	if err != nil {
		p.t.Fatal(err)
	}
	defer c.Close()
	fmt.Fprintf(c, "GET /%s/limited HTTP/1.1\r\nHost: %s\r\nX-User: %s\r\nConnection: close\r\n\r\n", framework, p.addr, user)
	r := textproto.NewReader(bufio.NewReader(c))
	first, err := r.ReadLine()
	if err != nil {
		p.t.Fatal(err)
	}
	status, _ = strconv.Atoi(strings.Fields(first)[1])
	for {
		line, err := r.ReadLine()
		if err != nil || line == "" {
			return status, header
		}
		header = append(header, line)
	}
}

// ends runs the demo with flags it can't serve with, and returns what it wrote to stderr and its exit code.
func ends(t *testing.T, flags ...string) (stderr string, code int) {
	t.Helper()
	cmd := exec.Command(program, flags...)
	var text buffer
	cmd.Stderr = &text
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	killer := time.AfterFunc(patience, func() { _ = cmd.Process.Signal(os.Kill) })
	defer killer.Stop()
	_ = cmd.Wait()
	return text.String(), cmd.ProcessState.ExitCode()
}
