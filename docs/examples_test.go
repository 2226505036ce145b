package docs_test

import (
	"go/ast"
	"go/doc"
	"go/doc/comment"
	"maps"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// notImported matches directories whose packages nobody imports.
var notImported = regexp.MustCompile(`(^|/)(internal|examples|benchmarks|docs|scripts|[._][^/]+)(/|$)`)

// publicPackage is a directory of Go files that pkg.go.dev shows.
type publicPackage struct {
	name     string
	comments []string // of the package
	types    []string // that it exports
	forTests bool     // it imports testing
	examples []*doc.Example
}

// publicPackages are the packages that apps can import, in all modules, by
// their directories.
func publicPackages(t *testing.T) map[string]*publicPackage {
	t.Helper()
	found := map[string]*publicPackage{}
	goFiles(t, func(file string, parsed *ast.File) {
		dir := path.Dir(file)
		if notImported.MatchString(dir) {
			return
		}
		if found[dir] == nil {
			found[dir] = new(publicPackage)
		}
		found[dir].add(strings.HasSuffix(file, "_test.go"), parsed)
	})
	maps.DeleteFunc(found, func(_ string, p *publicPackage) bool { return p.name == "main" || p.name == "" })
	return found
}

func (p *publicPackage) add(isTest bool, parsed *ast.File) {
	if isTest {
		p.examples = append(p.examples, doc.Examples(parsed)...)
		return
	}
	p.name = parsed.Name.Name
	if parsed.Doc != nil {
		p.comments = append(p.comments, parsed.Doc.Text())
	}
	for _, i := range parsed.Imports {
		p.forTests = p.forTests || i.Path.Value == `"testing"`
	}
	for _, decl := range parsed.Decls {
		if g, ok := decl.(*ast.GenDecl); ok {
			for _, spec := range g.Specs {
				if s, ok := spec.(*ast.TypeSpec); ok && s.Name.IsExported() {
					p.types = append(p.types, s.Name.Name)
				}
			}
		}
	}
}

// Each package says on pkg.go.dev what it is, shows an example that go test
// runs, and links to its page. Suites for tests only compile theirs, because
// go test alone makes a testing.T.
func TestPackagesShowAnExampleAndLeadToTheirPage(t *testing.T) {
	packages := publicPackages(t)
	require.Contains(t, packages, "mcplimit/mcpgo", "the premise: all modules are read")
	for dir, p := range packages {
		if assert.Len(t, p.comments, 1, "package comments of %s", dir) {
			assert.True(t, leadsToAPage(t, p.comments[0]), `%s: its comment has no link to a page: end it with "See [docs/PAGE.md]." and "[docs/PAGE.md]: %sdocs/PAGE.md"`, dir, onMain)
		}
		shows := slices.ContainsFunc(p.examples, func(e *doc.Example) bool { return e.Output != "" || e.EmptyOutput || p.forTests })
		assert.True(t, shows, "%s has no example with an output, as in core/example_test.go", dir)
	}
}

// onMain is where pkg.go.dev's readers find files of the repository.
const onMain = "https://github.com/tokenbucket-go/ratelimit/blob/main/"

// leadsToAPage reports whether a comment has a link to a page of the
// repository. A link to a page that is not there is a mistake.
func leadsToAPage(t *testing.T, text string) (found bool) {
	t.Helper()
	for _, block := range new(comment.Parser).Parse(text).Content {
		paragraph, ok := block.(*comment.Paragraph)
		if !ok {
			continue
		}
		for _, part := range paragraph.Text {
			if link, ok := part.(*comment.Link); ok && strings.HasPrefix(link.URL, onMain) {
				assert.FileExists(t, filepath.Join("..", strings.TrimPrefix(link.URL, onMain)))
				found = true
			}
		}
	}
	return found
}

// noExample are types that a reader of examples does not write.
var noExample = map[string]string{
	"adminlimit.Config":    "the package's example has it",
	"adminlimit.Bucket":    "a part of State",
	"adminlimit.Level":     "a part of State",
	"adminlimit.Denials":   "a part of State, and what Top reports",
	"adminlimit.DeniedKey": "a part of State, and what Top reports",
	"adminlimit.Policy":    "a part of State",
	"adminlimit.Exception": "a part of State",
	"adminlimit.Redis":     "a part of State",
}

// Packages that apps call have an example of themselves, and of each type under
// its own name.
func TestEveryTypeHasAnExample(t *testing.T) {
	packages := publicPackages(t)
	for _, dir := range []string{
		"core", "core/redisstore", "core/policyfile", "core/storestats", "ginlimit", "echolimit", "chilimit", "fiberlimit", "httplimit", "adminlimit", "clientlimit",
	} {
		shown := map[string]bool{}
		for _, e := range packages[dir].examples {
			shown[e.Name] = true
		}
		assert.True(t, shown[""], "package %s has no Example", dir)
		for _, name := range packages[dir].types {
			assert.True(t, shown[name] || noExample[dir+"."+name] != "", "%s.%s has no example: write Example%s", dir, name, name)
		}
	}
}

// The commands of examples/README.md print what the page shows.
func TestTheGinExampleAnswersAsItsPageShows(t *testing.T) {
	text := string(read(t, "../examples/README.md"))
	_, commands, found := strings.Cut(text, "go run ./examples/gin &\n")
	require.True(t, found)
	commands, rest, _ := strings.Cut(commands, "```")
	addr := freeAddr(t)
	program := command(t, "example_gin", addr)
	program.Env = append(program.Env, "ADDR="+addr, "ADMIN_ADDR=localhost:0")
	serve(t, program, addr)
	require.Equal(t, strings.TrimSpace(blocks(rest, "text")[0]), printed(t, strings.ReplaceAll(commands, "localhost:8080", addr)))
}

// What examples have in common has one text, so that who knows one knows all.
func TestExamplesHaveOneFrame(t *testing.T) {
	// opening is how they open their store, and serving how they serve.
	opening := regexp.MustCompile(`(?ms)^\tctx, stop := signal\.NotifyContext.*?^\t}\n`)
	serving := regexp.MustCompile(`(?ms)^// newServer bounds.*`)
	prefix := regexp.MustCompile(`WithPrefix\("[a-z0-9-]+-example:"\)`)
	gin := string(read(t, "../examples/gin/main.go"))
	others := []string{"jobs", "fiber", "fiber-v3", "grpc"} // which have servers of their own, or none
	for _, file := range append(glob(t, "../examples/*/main.go"), glob(t, "../examples/extra/*/main.go")...) {
		name, text := filepath.Base(filepath.Dir(file)), string(read(t, file))
		if name == "demo" {
			continue
		}
		require.Regexp(t, prefix, text, file)
		require.Equal(t, prefix.ReplaceAllString(opening.FindString(gin), ""), prefix.ReplaceAllString(opening.FindString(text), ""), file)
		if !slices.Contains(others, name) {
			require.Equal(t, serving.FindString(gin), serving.FindString(text), file)
		}
	}
	for v1, v2 := range map[string]string{"echo": "echo-v5", "fiber": "fiber-v3"} {
		one, two := string(read(t, "../examples/"+v1+"/main.go")), string(read(t, "../examples/"+v2+"/main.go"))
		require.Less(t, different(one, two), 30, "%s is %s but for types and imports", v2, v1)
	}
}

// different counts the lines of b that a has not.
func different(a, b string) (n int) {
	lines := strings.Split(a, "\n")
	for line := range strings.SplitSeq(b, "\n") {
		if !slices.Contains(lines, line) {
			n++
		}
	}
	return n
}

func TestExamplesPageNamesEachExample(t *testing.T) {
	text := string(read(t, "../examples/README.md"))
	for _, file := range append(glob(t, "../examples/*/*.go"), glob(t, "../examples/extra/*/*.go")...) {
		require.Contains(t, text, "["+filepath.Base(filepath.Dir(file))+"](", "examples/README.md does not list it")
	}
}
