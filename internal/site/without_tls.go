package main

import (
	_ "embed"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

//go:embed tls.go.txt
var noTLS []byte

// withoutTLS are the build flags of a program that has net/http without the
// parts that only a server on a network needs: TLS, with its certificates and
// ciphers, and HTTP/2. They were a sixth of it. It writes files into the folder
// temp. A toolchain that the go command has downloaded can't be overlaid: then
// programs are larger.
func withoutTLS(temp string) ([]string, error) {
	flags := []string{"-tags=nethttpomithttp2"}
	said, err := exec.Command("go", "env", "GOROOT", "GOMODCACHE").Output()
	if err != nil {
		return nil, err
	}
	goroot, cache, _ := strings.Cut(strings.TrimSpace(string(said)), "\n")
	if strings.HasPrefix(goroot, cache+string(filepath.Separator)) {
		return flags, nil
	}
	instead := filepath.Join(temp, "tls.go")
	if err := os.WriteFile(instead, noTLS, 0o600); err != nil {
		return nil, err
	}
	all, err := filepath.Glob(filepath.Join(goroot, "src", "crypto", "tls", "*.go"))
	if err != nil {
		return nil, err
	}
	replace := make(map[string]string)
	for _, file := range all {
		replace[file] = "" // as if it were not there
	}
	replace[filepath.Join(goroot, "src", "crypto", "tls", "tls.go")] = instead
	text, err := json.Marshal(map[string]any{"Replace": replace})
	if err != nil {
		return nil, err
	}
	overlay := filepath.Join(temp, "overlay.json")
	return append(flags, "-overlay="+overlay), os.WriteFile(overlay, text, 0o600)
}
