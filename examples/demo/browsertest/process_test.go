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
}

// start runs a demo on a port of its own until the test ends. Its buckets are its own, unless flags say where they are.
func start(t *testing.T, flags ...string) *process {
	t.Helper()
	if len(flags) == 0 && redisAtUsualPlace() {
		flags = []string{"-redis-host", ""} // it would use that one
	}
	cmd := exec.Command(program, append([]string{"-addr", "127.0.0.1:0"}, flags...)...)
	var complaints buffer
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
		for lines := bufio.NewScanner(out); lines.Scan(); {
			if strings.HasPrefix(lines.Text(), "demo: http://") {
				ready <- lines.Text()
			}
		}
	}()
	t.Cleanup(func() {
		_ = cmd.Process.Signal(syscall.SIGTERM)
		killer := time.AfterFunc(patience, func() { _ = cmd.Process.Kill() })
		<-read
		if err := cmd.Wait(); err != nil {
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
		return &process{t: t, url: url, addr: strings.TrimPrefix(url, "http://"), line: line}
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

// greeting is what the server tells a page first, as far as the tests look at it.
type greeting struct {
	Store    struct{ Text string }
	Settings map[string]any
	Log      []struct {
		ID     int64
		Status int
	}
	Metrics struct{ Admitted, Denied, Errors int }
	State   []struct {
		Key    string
		Limits []struct{ Tokens float64 }
	}
	Scenarios []struct {
		ID, Title, Expect, Reason string
		Available                 bool
	}
}

func (p *process) hello() (g greeting) {
	p.t.Helper()
	resp, err := http.Get(p.url + "/events")
	if err != nil {
		p.t.Fatal(err)
	}
	defer resp.Body.Close()
	r := textproto.NewReader(bufio.NewReader(resp.Body))
	event, _ := r.ReadLine()
	data, err := r.ReadLine()
	if err == nil && event == "event: hello" {
		err = json.Unmarshal([]byte(strings.TrimPrefix(data, "data: ")), &g)
	}
	if err != nil || event != "event: hello" {
		p.t.Fatalf("GET /events: %q, %v", event, err)
	}
	return g
}

// all is how many requests the server has seen.
func (p *process) all() int {
	m := p.hello().Metrics
	return m.Admitted + m.Denied + m.Errors
}

// quiet waits until no requests come any more.
func (p *process) quiet() {
	p.t.Helper()
	last, since := p.all(), time.Now()
	for began := time.Now(); time.Since(since) < 700*time.Millisecond; time.Sleep(20 * time.Millisecond) {
		if n := p.all(); n != last {
			last, since = n, time.Now()
		}
		if time.Since(began) > patience {
			p.t.Fatal("the requests do not stop")
		}
	}
}

// open starts a demo whose limit hardly refills, and opens its page.
func open(t *testing.T) (*process, *tab) {
	t.Helper()
	p := start(t)
	p.set(slow())
	return p, p.open()
}

// slow are settings whose buckets don't refill while a test looks.
func slow() map[string]any {
	return map[string]any{
		"capacity": 10, "rate": 1, "interval_ms": 3_600_000, "mode": "continuous", "cost": 1,
		"second":  map[string]any{"on": false},
		"headers": "default", "key": "client",
	}
}

// nearlyAnHour is a pattern of the seconds until a token of a slow bucket comes back. They count from the first request.
const nearlyAnHour = `3(?:[0-5]\d\d|600)`

// set changes settings past the page.
func (p *process) set(settings map[string]any) {
	p.t.Helper()
	body, _ := json.Marshal(settings)
	resp, err := http.Post(p.url+"/api/settings", "application/json", bytes.NewReader(body))
	if err != nil {
		p.t.Fatal(err)
	}
	defer resp.Body.Close()
	if text, _ := io.ReadAll(resp.Body); resp.StatusCode != http.StatusOK {
		p.t.Fatalf("settings: %s: %s", resp.Status, text)
	}
}

// reset clears the run past the page. Pages hear of it before they hear of any request after.
func (p *process) reset() {
	p.t.Helper()
	resp, err := http.Post(p.url+"/api/reset", "", nil)
	if err != nil {
		p.t.Fatal(err)
	}
	resp.Body.Close()
	if resp.StatusCode != http.StatusNoContent {
		p.t.Fatalf("reset: %s", resp.Status)
	}
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
