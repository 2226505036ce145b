//go:build !linux

package browser

import "os/exec"

// endWithTests does nothing: only Linux can do that.
func endWithTests(*exec.Cmd) {}
