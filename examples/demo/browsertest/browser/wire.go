package browser

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"os/exec"
	"strings"
	"time"
)

// patience is how long a browser may take for anything. Machines that run tests are busy.
const patience = time.Minute

// wire sends commands of W3C WebDriver to one browser, by their names in the standard, and stores what they return in
// result unless that is nil.
type wire interface {
	call(command string, params, result any) error
	close() error // ends the browser too
}

// driver is a wire to a driver program, such as chromedriver, which starts the browser.
type driver struct {
	program *exec.Cmd
	client  http.Client
	url     string // of the session
}

// endpoints are those of the commands that are used.
var endpoints = map[string]string{
	"NewSession":         "POST ",
	"DeleteSession":      "DELETE ",
	"SetTimeouts":        "POST /timeouts",
	"SetWindowRect":      "POST /window/rect",
	"Navigate":           "POST /url",
	"ExecuteAsyncScript": "POST /execute/async",
	"PerformActions":     "POST /actions",
	"ReleaseActions":     "DELETE /actions",
	"TakeScreenshot":     "GET /screenshot",
	"DeleteAllCookies":   "DELETE /cookie",
	"ExecuteCDP":         "POST /goog/cdp/execute", // chromedriver's own
}

// startDriver starts a driver program, and a browser with its capabilities. The program takes its port as a flag.
func startDriver(program *exec.Cmd, capabilities map[string]any) (*driver, error) {
	port, err := freePort()
	if err != nil {
		return nil, err
	}
	program.Args = append(program.Args, fmt.Sprintf("--port=%d", port))
	endWithTests(program)
	if err := program.Start(); err != nil {
		return nil, err
	}
	d := &driver{program: program, client: http.Client{Timeout: 2 * patience}, url: fmt.Sprintf("http://127.0.0.1:%d/session", port)}
	if err := listens(port); err != nil {
		d.end()
		return nil, fmt.Errorf("%s: %w", program.Path, err)
	}
	var session struct{ SessionID string }
	if err := d.call("NewSession", map[string]any{"capabilities": map[string]any{"alwaysMatch": capabilities}}, &session); err != nil {
		d.end()
		return nil, err
	}
	d.url += "/" + session.SessionID
	return d, nil
}

func (d *driver) call(command string, params, result any) error {
	method, path, _ := strings.Cut(endpoints[command], " ")
	if params == nil {
		params = struct{}{} // the standard has no empty bodies
	}
	text, err := json.Marshal(params)
	if err != nil {
		return err
	}
	if method != http.MethodPost {
		text = nil
	}
	req, err := http.NewRequest(method, d.url+path, bytes.NewReader(text))
	if err != nil {
		return err
	}
	resp, err := d.client.Do(req)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	var answer struct{ Value json.RawMessage }
	if err := json.NewDecoder(resp.Body).Decode(&answer); err != nil {
		return fmt.Errorf("%s: %s: %w", command, resp.Status, err)
	}
	if resp.StatusCode != http.StatusOK {
		return failure(command, answer.Value)
	}
	return decode(answer.Value, result)
}

func (d *driver) close() error {
	err := d.call("DeleteSession", nil, nil)
	d.end()
	return err
}

func (d *driver) end() {
	_ = d.program.Process.Kill()
	_ = d.program.Wait()
}

// failure is the error that a browser answers a command with.
func failure(command string, answer json.RawMessage) error {
	var e struct{ Error, Message string }
	_ = json.Unmarshal(answer, &e)
	return fmt.Errorf("%s: %s", command, cmp.Or(e.Message, e.Error, string(answer)))
}

func decode(text json.RawMessage, result any) error {
	if result == nil {
		return nil
	}
	return json.Unmarshal(text, result)
}

// freePort is a port on which nobody listens at the moment.
func freePort() (int, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return 0, err
	}
	defer l.Close()
	return l.Addr().(*net.TCPAddr).Port, nil
}

// listens waits until something listens on the port.
func listens(port int) error {
	for began := time.Now(); ; time.Sleep(20 * time.Millisecond) {
		c, err := net.Dial("tcp", fmt.Sprintf("127.0.0.1:%d", port))
		if err == nil {
			return c.Close()
		}
		if time.Since(began) > patience {
			return err
		}
	}
}
