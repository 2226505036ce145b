// Package docs_test compiles the Go of README.md and of the pages beside it.
package docs_test

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// known are the packages a snippet may name without importing them.
var known = map[string]string{
	"context": "context", "fmt": "fmt", "http": "net/http", "log": "log", "os": "os", "signal": "os/signal", "syscall": "syscall", "time": "time", "tls": "crypto/tls",
	"redis": "github.com/redis/go-redis/v9", "gin": "github.com/gin-gonic/gin", "echo": "github.com/labstack/echo/v4",
	"chi": "github.com/go-chi/chi/v5", "fiber": "github.com/gofiber/fiber/v2",
	"slog": "log/slog", "strings": "strings", "errors": "errors", "httputil": "net/http/httputil", "prometheus": "github.com/prometheus/client_golang/prometheus",
	"promhttp":   "github.com/prometheus/client_golang/prometheus/promhttp",
	"core":       "github.com/tokenbucket-go/ratelimit/core",
	"redisstore": "github.com/tokenbucket-go/ratelimit/core/redisstore",
	"policyfile": "github.com/tokenbucket-go/ratelimit/core/policyfile",
}

func init() {
	for _, own := range []string{"ginlimit", "echolimit", "chilimit", "fiberlimit", "httplimit", "promlimit", "otellimit"} {
		known[own] = "github.com/tokenbucket-go/ratelimit/" + own
	}
}

// given are variables of the reader's own program that snippets build on.
var given = map[string]string{
	"ctx": "context.Context", "store": "core.Store", "limiter": "*core.Limiter", "policy": "core.Policy",
	"ginEngine": "*gin.Engine", "r": "*gin.Engine", "echoServer": "*echo.Echo", "chiRouter": "chi.Router", "fiberApp": "*fiber.App",
	"mux": "*http.ServeMux", "login": "http.Handler", "cors": "func(http.Handler) http.Handler", "proxy": "*httputil.ReverseProxy",
	"organisation": "*core.Limiter", "byKey": "func(*http.Request) (string, error)", "byOrganisation": "func(*http.Request) (string, error)",
	"estimate": "func(*http.Request) (core.Units, error)", "used": "func(*http.Request, int) core.Units",
}

var (
	fence     = regexp.MustCompile("(?ms)^```go\n(.*?)^```")
	qualifier = regexp.MustCompile(`\b([a-z]+)\.[A-Z]`)
	clause    = regexp.MustCompile(`(?m)^package `)
	declared  = regexp.MustCompile(`(?m)^(\w+(?:, \w+)*) := `)
)

func TestSnippetsCompile(t *testing.T) {
	pages, err := filepath.Glob("*.md")
	require.NoError(t, err)
	pages = append(pages, "../README.md")

	dir, err := os.Getwd()
	require.NoError(t, err)
	overlay := map[string]map[string]string{"Replace": {}}
	args := []string{"build", "-overlay", filepath.Join(t.TempDir(), "overlay.json")}
	for _, page := range pages {
		if page == "migrating.md" {
			continue // see TestMigratingShowsCodeThatCompiles
		}
		text, err := os.ReadFile(page)
		require.NoError(t, err)
		for i, block := range fence.FindAllStringSubmatch(string(text), -1) {
			name := fmt.Sprintf("snippet_%s_%d", strings.Trim(strings.TrimSuffix(page, ".md"), "./"), i+1)
			real := filepath.Join(t.TempDir(), "snippet.go")
			require.NoError(t, os.WriteFile(real, []byte(program(block[1])), 0o600))
			overlay["Replace"][filepath.Join(dir, name, "snippet.go")] = real
			args = append(args, "./"+name)
		}
	}
	require.Greater(t, len(args), 5, "the README has Go snippets")
	text, err := json.Marshal(overlay)
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(args[2], text, 0o600))
	out, err := exec.Command("go", args...).CombinedOutput()
	require.NoError(t, err, "%s", out)
}

// TestTheAdapterShownIsTheExample: what adapters.md shows is what the suite has checked.
func TestTheAdapterShownIsTheExample(t *testing.T) {
	page, err := os.ReadFile("adapters.md")
	require.NoError(t, err)
	file, err := os.ReadFile("../examples/adapter/adapter.go")
	require.NoError(t, err)
	require.Contains(t, string(page), "```go\n"+string(file)+"```\n", "copy examples/adapter/adapter.go into adapters.md")
}

// program makes a compilable file of a snippet: whole files stay as they are, statements become a
// function's.
func program(snippet string) string {
	if clause.MatchString(snippet) {
		return snippet
	}
	var uses []string
	for _, d := range declared.FindAllStringSubmatch(snippet, -1) {
		for _, name := range strings.Split(d[1], ", ") {
			if use := "\t_ = " + name + "\n"; name != "_" && !slices.Contains(uses, use) {
				uses = append(uses, use)
			}
		}
	}
	var params []string
	for name, kind := range given {
		if regexp.MustCompile(`(?m)^` + name + `\b[^\n]*:=`).MatchString(snippet) {
			continue // the snippet makes its own
		}
		params = append(params, name+" "+kind)
	}
	handler := "handler http.Handler"
	if strings.Contains(snippet, "gin.Context") {
		handler = "handler gin.HandlerFunc"
	}
	params = append(params, handler)
	slices.Sort(params)
	body := "func _(" + strings.Join(params, ", ") + ") {\n" + snippet + strings.Join(uses, "") + "}\n"
	var imports []string
	for _, q := range qualifier.FindAllStringSubmatch(body, -1) {
		if path, ok := known[q[1]]; ok && !slices.Contains(imports, path) {
			imports = append(imports, path)
		}
	}
	return "package snippet\n\nimport (\n\t\"" + strings.Join(imports, "\"\n\t\"") + "\"\n)\n\n" + body
}
