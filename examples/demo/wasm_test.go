//go:build !js

package main

import (
	"os"
	"os/exec"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// A page without a server loads net/http and the library, and nothing of the other frameworks and of Redis.
func TestThePageLoadsNoFrameworks(t *testing.T) {
	list := exec.Command("go", "list", "-deps", "-f", "{{if not .Standard}}{{.ImportPath}}{{end}}", ".")
	list.Env = append(os.Environ(), "GOOS=js", "GOARCH=wasm")
	out, err := list.Output()
	require.NoError(t, err)
	const module = "github.com/tokenbucket-go/ratelimit/"
	known := map[string]bool{ // of httplimit and of the breaker
		"github.com/felixge/httpsnoop": true, "github.com/sony/gobreaker/v2": true,
	}
	paths := strings.Fields(string(out))
	require.Contains(t, paths, module+"httplimit")
	require.Contains(t, paths, module+"core/breaker")
	for _, path := range paths {
		own, of := strings.CutPrefix(path, module)
		require.True(t, of || known[path], "it loads %s", path)
		for _, no := range []string{"ginlimit", "echolimit", "chilimit", "fiberlimit", "core/redisstore"} {
			require.False(t, own == no || strings.HasPrefix(own, no+"/"), "it loads %s", path)
		}
	}
}

// The program compiles without complaints.
func TestThePageIsVetted(t *testing.T) {
	vet := exec.Command("go", "vet", ".")
	vet.Env = append(os.Environ(), "GOOS=js", "GOARCH=wasm")
	said, err := vet.CombinedOutput()
	require.NoError(t, err, "%s", said)
}
