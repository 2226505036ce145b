// Package docs_test compiles the Go of README.md and of the pages beside it.
package docs_test

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/tokenbucket-go/ratelimit/core"
	"github.com/tokenbucket-go/ratelimit/internal/onebinary"
)

// known are the packages a snippet may name without importing them.
var known = map[string]string{
	"context": "context", "fmt": "fmt", "http": "net/http", "log": "log", "os": "os", "signal": "os/signal", "syscall": "syscall", "time": "time", "tls": "crypto/tls",
	"redis": "github.com/redis/go-redis/v9", "gin": "github.com/gin-gonic/gin", "echo": "github.com/labstack/echo/v4",
	"chi": "github.com/go-chi/chi/v5", "fiber": "github.com/gofiber/fiber/v2",
	"slog": "log/slog", "io": "io", "bytes": "bytes", "json": "encoding/json", "strings": "strings", "errors": "errors", "httputil": "net/http/httputil", "prometheus": "github.com/prometheus/client_golang/prometheus",
	"promhttp":   "github.com/prometheus/client_golang/prometheus/promhttp",
	"core":       "github.com/tokenbucket-go/ratelimit/core",
	"redisstore": "github.com/tokenbucket-go/ratelimit/core/redisstore",
	"policyfile": "github.com/tokenbucket-go/ratelimit/core/policyfile",
	"adapter":    "github.com/tokenbucket-go/ratelimit/core/adapter",
}

func init() {
	for _, own := range []string{"ginlimit", "echolimit", "chilimit", "fiberlimit", "httplimit", "promlimit", "otellimit", "adminlimit", "clientlimit"} {
		known[own] = "github.com/tokenbucket-go/ratelimit/" + own
	}
}

// given are variables of the reader's own program that snippets build on.
var given = map[string]string{
	"ctx": "context.Context", "store": "core.Store", "limiter": "*core.Limiter", "policy": "core.Policy",
	"r":   "*gin.Engine",
	"mux": "*http.ServeMux", "login": "http.Handler", "cors": "func(http.Handler) http.Handler", "proxy": "*httputil.ReverseProxy",
	"organisation": "*core.Limiter", "byKey": "func(*http.Request) (string, error)", "byOrganisation": "func(*http.Request) (string, error)",
	"search": "*core.Limiter", "logins": "*core.Limiter", "apiKey": "string", "userOf": "func(*gin.Context) string", "verifyKey": "gin.HandlerFunc", "work": "func([]byte)", "correct": "func(user, password string) bool",
	"estimate": "func(*http.Request) (core.Units, error)", "used": "func(*http.Request, int) core.Units",
	"client": "*http.Client", "req": "*http.Request", "usageIn": "func([]byte) int64",
}

var (
	fence     = regexp.MustCompile("(?ms)^```go\n(.*?)^```")
	qualifier = regexp.MustCompile(`\b([a-z]+)\.[A-Z]`)
	clause    = regexp.MustCompile(`(?m)^package (\w+)$`)
	// otherModule finds lines whose packages are no requirements of this
	// module.
	otherModule = regexp.MustCompile(`\b(grpc|connect|mcp)limit\.`)
	declared    = regexp.MustCompile(`(?m)^(\w+(?:, \w+)*) := `)
)

// shown are the binaries of all Go of the pages: of its programs, and of its
// tests. They are compiled once for all tests.
var shown = sync.OnceValues(func() (b binaries, err error) {
	pages, err := filepath.Glob("*.md")
	if err != nil {
		return b, err
	}
	set := onebinary.New("github.com/tokenbucket-go/ratelimit/docs", "_shown")
	for _, page := range append(pages, "../README.md") {
		text, err := os.ReadFile(page)
		if err != nil {
			return b, err
		}
		for i, block := range fence.FindAllStringSubmatch(string(text), -1) {
			name := nameOf(page, i)
			switch found := clause.FindStringSubmatch(block[1]); {
			case found == nil && otherModule.MatchString(block[1]):
				// see TestLinesOfOtherModulesStandInExamples
			case found == nil:
				set.File("statements", name+".go", statements(block[1]))
			case found[1] == "main":
				addProgram(set, name, block[1], slices.Contains(programPages, page))
			case strings.HasSuffix(found[1], "_test"):
				set.File("tests", name+"_test.go", clause.ReplaceAllString(block[1], "package tests_test"))
				b.testFunctions += strings.Count(block[1], "\nfunc Test")
			default:
				set.File(name, "shown.go", block[1])
			}
		}
	}
	for _, example := range []string{"gin", "http"} {
		source, err := os.ReadFile("../examples/" + example + "/main.go")
		if err != nil {
			return b, err
		}
		addProgram(set, "example_"+example, string(source), true)
	}
	b.programs, b.tests = filepath.Join(buildDir, "programs"), filepath.Join(buildDir, "tests")
	return b, errors.Join(set.Build(b.programs), set.BuildTests("tests", b.tests))
})

type binaries struct {
	programs      string // runs the program that PROGRAM names
	tests         string
	testFunctions int
}

// nameOf is the name of a page's i-th block of Go.
func nameOf(page string, i int) string {
	return strings.ReplaceAll(strings.ToLower(strings.Trim(strings.TrimSuffix(page, ".md"), "./")), "-", "_") + "_" + strconv.Itoa(i+1)
}

// addProgram adds a program of a page. It listens on the address that the
// variable ADDRESS tells, and its Redis is at the URL of REDIS_URL.
func addProgram(set *onebinary.Set, name, source string, clockStands bool) {
	if clockStands {
		source = strings.ReplaceAll(source, "core.NewMemoryStore()", "core.NewMemoryStore(stopped())")
		set.File(name, "stopped.go", "package "+name+stopped)
	}
	set.File(name, "address.go", "package "+name+"\n\nimport \"os\"\n\nvar address, redisURL = os.Getenv(\"ADDRESS\"), os.Getenv(\"REDIS_URL\")\n")
	set.Program(name, here.Replace(source))
}

// here replaces the addresses of a program's source by those of the test.
var here = strings.NewReplacer(`"localhost:8080"`, "address", `"redis://localhost:6379"`, "redisURL")

// command returns a command that runs a program of the pages, on an address if
// it listens.
func command(t *testing.T, program, address string, args ...string) *exec.Cmd {
	t.Helper()
	b, err := shown()
	require.NoError(t, err)
	c := exec.Command(b.programs, args...)
	c.Env = append(os.Environ(), "PROGRAM="+program, "ADDRESS="+address)
	return c
}

// buildDir is where binaries are.
var buildDir string

func TestMain(m *testing.M) { os.Exit(run(m)) }

func run(m *testing.M) int {
	var err error
	if buildDir, err = os.MkdirTemp("", "docs"); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	defer func() { _ = os.RemoveAll(buildDir) }()
	return m.Run()
}

func TestSnippetsCompile(t *testing.T) {
	_, err := shown()
	require.NoError(t, err)
}

// Their own modules compile the examples.
func TestLinesOfOtherModulesStandInExamples(t *testing.T) {
	shown := 0
	for _, block := range fence.FindAllStringSubmatch(string(read(t, "rpc.md")), -1) {
		module := otherModule.FindStringSubmatch(block[1])
		require.NotNil(t, module, block[1])
		example := string(read(t, "../examples/extra/"+module[1]+"/main.go"))
		for line := range strings.Lines(block[1]) {
			require.Contains(t, example, strings.TrimSpace(line), "a line of rpc.md")
			shown++
		}
	}
	require.GreaterOrEqual(t, shown, 6, "the lines were not found")
}

// The module examples/frameworks compiles the programs that adapters.md links
// to, and sends them requests. A line of the page stands in one of them.
func TestLinesOfFrameworksStandInExamples(t *testing.T) {
	page := string(read(t, "adapters.md"))
	programs, err := filepath.Glob("../examples/frameworks/*/main.go")
	require.NoError(t, err)
	require.NotEmpty(t, programs)
	for _, program := range programs {
		require.Contains(t, page, "]("+program+")")
	}
	rows := regexp.MustCompile("(?m)^\\|.*\\| `([^|]*\\blimit\\b[^|]*)` \\|").FindAllStringSubmatch(page, -1)
	require.NotEmpty(t, rows)
	for _, row := range rows {
		line := regexp.MustCompile(strings.Replace(regexp.QuoteMeta(row[1]), "limit", ".+", 1))
		require.True(t, slices.ContainsFunc(programs, func(program string) bool { return line.Match(read(t, program)) }), "in no program: %s", row[1])
	}
}

// statements makes a file of a snippet without a package clause: it becomes the
// body of a function.
func statements(snippet string) string {
	var uses []string
	for _, d := range declared.FindAllStringSubmatch(snippet, -1) {
		for name := range strings.SplitSeq(d[1], ", ") {
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
	return "package statements" + importing(body) + body
}

// importing returns the declaration that imports what body names.
func importing(body string) string {
	var imports []string
	for _, q := range qualifier.FindAllStringSubmatch(body, -1) {
		if path, ok := known[q[1]]; ok && !slices.Contains(imports, path) {
			imports = append(imports, path)
		}
	}
	return "\n\nimport (\n\t\"" + strings.Join(imports, "\"\n\t\"") + "\"\n)\n\n"
}

// What middleware.md says that a second admits is what Limit.MaxIn says of its
// limit.
func TestASecondOfTheLimiterPageAdmitsWhatItSays(t *testing.T) {
	text, err := os.ReadFile("middleware.md")
	require.NoError(t, err)
	require.Contains(t, string(text), "core.PerSecond(10)", "premise: the page's limit")
	l := core.PerSecond(10)
	assert.Contains(t, string(text), fmt.Sprintf("one second sees at most %d mails", l.MaxIn(time.Second)))
	assert.Contains(t, string(text), fmt.Sprintf("With `WithBurst(1)` it is %d", l.WithBurst(1).MaxIn(time.Second)))
}
