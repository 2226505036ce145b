package browser

import (
	"bufio"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"sync"
)

// display is a screen that nobody sees, for WebKitGTK, which has no headless mode. It starts when it is needed.
var display xvfb

type xvfb struct {
	mu     sync.Mutex
	server *exec.Cmd
	name   string
}

// start returns the name of the display.
func (x *xvfb) start() (string, error) {
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.name != "" {
		return x.name, nil
	}
	number, tell, err := os.Pipe()
	if err != nil {
		return "", err
	}
	defer number.Close()
	server := exec.Command("Xvfb", "-displayfd", "3", "-screen", "0", "2400x2400x24", "-nolisten", "tcp")
	server.ExtraFiles = []*os.File{tell}
	endWithTests(server)
	err = server.Start()
	tell.Close()
	if err != nil {
		return "", err
	}
	line, err := bufio.NewReader(number).ReadString('\n')
	if err != nil {
		_ = server.Wait()
		return "", fmt.Errorf("the display server Xvfb ended: %w", err)
	}
	x.server, x.name = server, ":"+strings.TrimSpace(line)
	return x.name, nil
}

func (x *xvfb) stop() {
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.server == nil {
		return
	}
	_ = x.server.Process.Kill()
	_ = x.server.Wait()
	x.server, x.name = nil, ""
}
