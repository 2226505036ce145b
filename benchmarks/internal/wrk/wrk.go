// Package wrk loads a web server with wrk (https://github.com/wg/wrk), as many clients, and reads what it measured.
package wrk

import (
	_ "embed"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"time"
)

//go:embed keys.lua
var script string

// Load is how to load a server.
type Load struct {
	Connections int
	Length      time.Duration // rounded up to whole seconds: wrk knows no parts of them
	Field       string        // of the header, that names the client
	Clients     int
	First       int // client that comes first
}

// Client is the name of client i.
func Client(i int) string { return fmt.Sprintf("user:%06d", i) }

// Measured is what wrk measured.
type Measured struct {
	Requests int64
	Elapsed  time.Duration

	// P50 and P99 are of the times from requests to their answers, and of those that requests would have taken which were
	// not sent because an answer was slow: wrk adds them.
	P50, P99 time.Duration
}

// Wrk is the program, with its script in a file.
type Wrk struct{ script string }

// New finds wrk. Close must be called.
func New() (*Wrk, error) {
	if _, err := exec.LookPath("wrk"); err != nil {
		return nil, fmt.Errorf("%w: on Debian and Ubuntu: apt-get install wrk", err)
	}
	dir, err := os.MkdirTemp("", "wrk")
	if err != nil {
		return nil, err
	}
	w := &Wrk{filepath.Join(dir, "keys.lua")}
	return w, os.WriteFile(w.script, []byte(script), 0o600)
}

// Close removes the script.
func (w *Wrk) Close() { _ = os.RemoveAll(filepath.Dir(w.script)) }

// Run loads url from one thread. It fails unless each request was answered, with a status below 400.
func (w *Wrk) Run(url string, l Load) (Measured, error) {
	seconds := int((l.Length + time.Second - 1) / time.Second)
	out, err := exec.Command("wrk", "--threads", "1", "--connections", strconv.Itoa(l.Connections),
		"--duration", strconv.Itoa(seconds)+"s", "--timeout", "10s", "--script", w.script, url, "--",
		l.Field, strconv.Itoa(l.Clients), strconv.Itoa(l.First)).CombinedOutput()
	if err != nil {
		return Measured{}, fmt.Errorf("wrk: %w: %s", err, out)
	}
	return parse(string(out))
}

// parse reads the line that the script prints last.
func parse(output string) (Measured, error) {
	lines := strings.Split(strings.TrimSpace(output), "\n")
	line := lines[len(lines)-1]
	numbers := map[string]int64{}
	for field := range strings.FieldsSeq(line) {
		name, value, _ := strings.Cut(field, "=")
		n, err := strconv.ParseInt(value, 10, 64)
		if err != nil {
			return Measured{}, fmt.Errorf("wrk's output has no line of results: %s", output)
		}
		numbers[name] = n
	}
	for _, name := range []string{"connect", "read", "write", "timeout", "status"} {
		if n, ok := numbers[name]; !ok || n > 0 {
			return Measured{}, fmt.Errorf("%s: errors of this kind: %d: %s", name, n, line)
		}
	}
	micros := func(name string) time.Duration { return time.Duration(numbers[name]) * time.Microsecond }
	m := Measured{numbers["requests"], micros("us"), micros("p50"), micros("p99")}
	if m.Requests == 0 || m.Elapsed == 0 || m.P50 == 0 || m.P99 < m.P50 {
		return Measured{}, errors.New("wrk measured nothing: " + line)
	}
	return m, nil
}

// Check asks url once as one of the clients. It fails unless the answer is 200 and, if a field is named by proof, has it.
func Check(client *http.Client, url, field, name, proof string) error {
	r, err := http.NewRequest(http.MethodGet, url, nil)
	if err != nil {
		return err
	}
	r.Header.Set(field, name)
	answer, err := client.Do(r)
	if err != nil {
		return err
	}
	_, _ = io.Copy(io.Discard, answer.Body) // so that the connection is used again
	_ = answer.Body.Close()
	if answer.StatusCode != http.StatusOK || proof != "" && answer.Header.Get(proof) == "" {
		return fmt.Errorf("client %s: answered %d with header %v", name, answer.StatusCode, answer.Header)
	}
	return nil
}
