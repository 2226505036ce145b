package browser

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"time"
)

// marionette is a wire to Firefox itself: the same commands in Firefox's own framing, which geckodriver translates to.
// Debian has no geckodriver. See https://firefox-source-docs.mozilla.org/testing/marionette/Protocol.html.
type marionette struct {
	firefox *exec.Cmd
	conn    net.Conn
	reader  *bufio.Reader
	id      int
}

// startMarionette starts a Firefox, which writes its port into its profile.
func startMarionette(firefox *exec.Cmd, profile string) (*marionette, error) {
	endWithTests(firefox)
	if err := firefox.Start(); err != nil {
		return nil, err
	}
	m := &marionette{firefox: firefox}
	if err := m.dial(filepath.Join(profile, "MarionetteActivePort")); err != nil {
		m.end()
		return nil, fmt.Errorf("%s: %w", firefox.Path, err)
	}
	return m, nil
}

func (m *marionette) dial(portFile string) error {
	port := ""
	for began := time.Now(); port == ""; time.Sleep(20 * time.Millisecond) {
		text, err := os.ReadFile(portFile)
		if port = string(text); err != nil && time.Since(began) > patience {
			return err
		}
	}
	conn, err := net.Dial("tcp", "127.0.0.1:"+port)
	if err != nil {
		return err
	}
	m.conn, m.reader = conn, bufio.NewReader(conn)
	if _, err := m.receive(); err != nil { // its greeting
		return err
	}
	return m.call("NewSession", nil, nil)
}

// chromeCommand prefixes commands that are about the browser rather than the standard's.
const chromeCommand = "Marionette:"

func (m *marionette) call(command string, params, result any) error {
	name := command
	if !strings.HasPrefix(command, chromeCommand) {
		name = "WebDriver:" + command
	}
	if params == nil {
		params = struct{}{}
	}
	m.id++
	text, err := json.Marshal([]any{0, m.id, name, params})
	if err != nil {
		return err
	}
	if _, err := fmt.Fprintf(m.conn, "%d:%s", len(text), text); err != nil {
		return err
	}
	frame, err := m.receive()
	if err != nil {
		return fmt.Errorf("%s: %w", command, err)
	}
	var answer [4]json.RawMessage // its type, the id, an error, what was asked for
	if err := json.Unmarshal(frame, &answer); err != nil {
		return err
	}
	if string(answer[1]) != strconv.Itoa(m.id) {
		return fmt.Errorf("%s: the answer is that of another command: %.200s", command, frame)
	}
	if string(answer[2]) != "null" {
		return failure(command, answer[2])
	}
	var wrapped struct{ Value json.RawMessage }
	if err := json.Unmarshal(answer[3], &wrapped); err == nil && wrapped.Value != nil {
		return decode(wrapped.Value, result)
	}
	return decode(answer[3], result)
}

// receive reads a frame: its length, a colon, and JSON.
func (m *marionette) receive() ([]byte, error) {
	if err := m.conn.SetReadDeadline(time.Now().Add(2 * patience)); err != nil {
		return nil, err
	}
	length, err := m.reader.ReadString(':')
	if err != nil {
		return nil, err
	}
	n, err := strconv.Atoi(strings.TrimSuffix(length, ":"))
	if err != nil {
		return nil, err
	}
	frame := make([]byte, n)
	_, err = io.ReadFull(m.reader, frame)
	return frame, err
}

func (m *marionette) close() error {
	err := m.call(chromeCommand+"Quit", map[string]any{"flags": []string{"eForceQuit"}}, nil)
	m.end()
	if errors.Is(err, io.EOF) {
		err = nil
	}
	return err
}

func (m *marionette) end() {
	if m.conn != nil {
		_ = m.conn.Close()
	}
	_ = m.firefox.Process.Kill()
	_ = m.firefox.Wait()
}
