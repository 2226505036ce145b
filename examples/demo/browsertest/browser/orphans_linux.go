package browser

import (
	"os/exec"
	"syscall"
)

// endWithTests lets a program end when the tests do, even if they are killed.
func endWithTests(program *exec.Cmd) {
	program.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGTERM}
}
