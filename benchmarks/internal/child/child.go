// Package child runs the programs that stand beside this one, each in a process of its own, and talks to them line by
// line.
package child

import (
	"bufio"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
)

// Process is a running program. It ends when its standard input does, so it does not outlive this process.
type Process struct {
	cmd    *exec.Cmd
	stdin  io.WriteCloser
	output *bufio.Reader
}

// Start starts a program of this program's directory and returns the first line that it prints, which says that it is
// ready.
func Start(name string, args ...string) (p *Process, ready string, err error) {
	self, err := os.Executable()
	if err != nil {
		return nil, "", err
	}
	return start(exec.Command(filepath.Join(filepath.Dir(self), name), args...))
}

func start(cmd *exec.Cmd) (*Process, string, error) {
	cmd.Stderr = os.Stderr
	stdin, err := cmd.StdinPipe()
	if err != nil {
		return nil, "", err
	}
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		return nil, "", err
	}
	if err := cmd.Start(); err != nil {
		return nil, "", fmt.Errorf("%w (benchmarks/run builds all programs into one directory)", err)
	}
	p := &Process{cmd, stdin, bufio.NewReader(stdout)}
	ready, err := p.Receive()
	if err != nil {
		p.Stop()
		return nil, "", err
	}
	return p, ready, nil
}

// Send writes a line to the program.
func (p *Process) Send(line string) error {
	_, err := io.WriteString(p.stdin, line+"\n")
	return err
}

// Receive reads a line from the program.
func (p *Process) Receive() (string, error) {
	line, err := p.output.ReadString('\n')
	if err != nil {
		return "", fmt.Errorf("%s ended: %w", filepath.Base(p.cmd.Path), err)
	}
	return line[:len(line)-1], nil
}

// Stop ends the program and waits until it has ended.
func (p *Process) Stop() {
	_ = p.stdin.Close()
	_ = p.cmd.Wait()
}
