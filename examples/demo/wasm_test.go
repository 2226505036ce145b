//go:build !js

package main

import (
	"os"
	"os/exec"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// A page without a server loads net/http and the library, and no Redis client.
func TestThePageLoadsNoRedisClient(t *testing.T) {
	paths := strings.Fields(goForPage(t, "list", "-deps", "-f", "{{if not .Standard}}{{.ImportPath}}{{end}}", "."))
	require.Contains(t, paths, "github.com/tokenbucket-go/ratelimit/httplimit")
	for _, path := range paths {
		require.NotContains(t, path, "redis", "it loads %s", path)
	}
}

// The program compiles without complaints.
func TestThePageIsVetted(t *testing.T) {
	goForPage(t, "vet", ".")
}

// goForPage runs the go command for WebAssembly, and returns what it prints.
func goForPage(t *testing.T, args ...string) string {
	t.Helper()
	command := exec.Command("go", args...)
	command.Env = append(os.Environ(), "GOOS=js", "GOARCH=wasm")
	said, err := command.CombinedOutput()
	require.NoError(t, err, "%s", said)
	return string(said)
}
