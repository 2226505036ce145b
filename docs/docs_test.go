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
var known = map[string]string{}

func init() {
	for _, path := range []string{
		"bytes", "context", "crypto/tls", "encoding/json", "errors", "fmt", "io", "log", "net/http", "os", "strings", "time",
		"github.com/gin-gonic/gin", "github.com/prometheus/client_golang/prometheus", "github.com/tokenbucket-go/ratelimit/core",
		"github.com/tokenbucket-go/ratelimit/core/policyfile", "github.com/tokenbucket-go/ratelimit/core/redisstore",
		"github.com/tokenbucket-go/ratelimit/ginlimit", "github.com/tokenbucket-go/ratelimit/httplimit", "github.com/tokenbucket-go/ratelimit/promlimit",
		"github.com/tokenbucket-go/ratelimit/adminlimit", "github.com/tokenbucket-go/ratelimit/clientlimit",
	} {
		known[filepath.Base(path)] = path
	}
	known["redis"] = "github.com/redis/go-redis/v9"
}

// given are variables of the reader's own program that snippets build on.
var given = map[string]string{
	"ctx": "context.Context", "store": "core.Store", "limiter": "*core.Limiter", "policy": "core.Policy",
	"r": "*gin.Engine", "mux": "*http.ServeMux",
	"byKey":  "func(*http.Request) (string, error)",
	"userOf": "func(*gin.Context) string", "verifyKey": "gin.HandlerFunc", "work": "func([]byte)", "correct": "func(user, password string) bool",
	"estimate": "func(*http.Request) (core.Units, error)",
	"client":   "*http.Client", "req": "*http.Request", "usageIn": "func([]byte) int64",
}

var (
	anyFence  = regexp.MustCompile("(?ms)^```(\\w+)\n(.*?)^```")
	qualifier = regexp.MustCompile(`\b([a-z]+)\.[A-Z]`)
	clause    = regexp.MustCompile(`(?m)^package (\w+)$`)
	// otherModule finds lines whose packages are no requirements of this
	// module.
	otherModule = regexp.MustCompile(`\b(grpc|connect|mcp)limit\.`)
	declares    = regexp.MustCompile(`(?m)^(\w+(?:, \w+)*) := `)
)

// blocks returns the fenced blocks of a language on a page.
func blocks(page, language string) (found []string) {
	for _, block := range anyFence.FindAllStringSubmatch(page, -1) {
		if block[1] == language {
			found = append(found, block[2])
		}
	}
	return found
}

// snippet is a block of Go on a page. Its name is that of the page and its
// number among the page's.
type snippet struct{ page, name, text string }

func snippets() (found []snippet, err error) {
	pages, err := filepath.Glob("*.md")
	for _, page := range append(pages, "../README.md") {
		text, wrong := os.ReadFile(page)
		err = errors.Join(err, wrong)
		for i, block := range blocks(string(text), "go") {
			found = append(found, snippet{page, nameOf(page, i), block})
		}
	}
	return found, err
}

// shown are the binaries of all Go of the pages: of its programs, and of its
// tests. They are compiled once for all tests.
var shown = sync.OnceValues(func() (b binaries, err error) {
	set := onebinary.New("github.com/tokenbucket-go/ratelimit/docs", "_shown")
	all, err := snippets()
	for _, s := range all {
		switch found := clause.FindStringSubmatch(s.text); {
		case found == nil && otherModule.MatchString(s.text):
			// see TestLinesOfOtherModulesStandInExamples
		case found == nil:
			set.File("statements", s.name+".go", statements(s.text))
		case found[1] == "main":
			addProgram(set, s.name, s.text, slices.Contains(programPages, s.page))
		default:
			set.File("tests", s.name+"_test.go", clause.ReplaceAllString(s.text, "package tests_test"))
			b.testFunctions += strings.Count(s.text, "\nfunc Test")
		}
	}
	for _, example := range []string{"gin", "http"} {
		source, wrong := os.ReadFile("../examples/" + example + "/main.go")
		err = errors.Join(err, wrong)
		addProgram(set, "example_"+example, string(source), true)
	}
	b.programs, b.tests = filepath.Join(buildDir, "programs"), filepath.Join(buildDir, "tests")
	return b, errors.Join(err, set.Build(b.programs), set.BuildTests("tests", b.tests))
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

// The tests that adapters.md shows pass.
func TestTestsOfTheTestingPagePass(t *testing.T) {
	b, err := shown()
	require.NoError(t, err)
	require.Positive(t, b.testFunctions, "the page shows tests")
	tests := exec.Command(b.tests, "-test.v", "-test.timeout=5m")
	tests.Dir = t.TempDir()
	out, err := tests.CombinedOutput()
	require.NoError(t, err, "%s", out)
	require.Equal(t, b.testFunctions, strings.Count(string(out), "\n--- PASS"), "every test on the page runs:\n%s", out)
}

// Their own modules compile the examples.
func TestLinesOfOtherModulesStandInExamples(t *testing.T) {
	for _, block := range blocks(string(read(t, "rpc.md")), "go") {
		module := otherModule.FindStringSubmatch(block)
		require.NotNil(t, module, block)
		example := string(read(t, "../examples/extra/"+module[1]+"/main.go"))
		for line := range strings.Lines(block) {
			require.Contains(t, example, strings.TrimSpace(line), "a line of rpc.md")
		}
	}
}

// The module examples/frameworks compiles the programs that adapters.md links
// to, and sends them requests. A line of the page stands in one of them.
func TestLinesOfFrameworksStandInExamples(t *testing.T) {
	page := string(read(t, "adapters.md"))
	programs := glob(t, "../examples/frameworks/*/main.go")
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
	for _, d := range declares.FindAllStringSubmatch(snippet, -1) {
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
	text, l := string(read(t, "middleware.md")), core.PerSecond(10)
	require.Contains(t, text, "core.PerSecond(10)", "premise: the page's limit")
	assert.Contains(t, text, fmt.Sprintf("one second sees at most %d mails", l.MaxIn(time.Second)))
	assert.Contains(t, text, fmt.Sprintf("With `WithBurst(1)` it is %d", l.WithBurst(1).MaxIn(time.Second)))
}
