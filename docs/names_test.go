package docs_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// names are what the module's Go declares and uses.
type names struct {
	packages map[string]map[string]bool // what each package exports, its tests too, by the package's name
	members  map[string]map[string]bool // methods and fields of exported types, by the type's name
	public   map[string]bool            // exported names that an importer can use
	foreign  map[string]bool            // names after a dot that nothing in this module declares
	private  map[string]bool            // all other identifiers
	literals map[string]bool            // words in string literals
}

// TestNamesInBackticksExist checks what stands in backticks outside of code blocks, if it is a Go expression:
//   - pkg.Name: the package of this module exports it;
//   - Type.Name: the type of this module has this method or field, unless another library has a type of that name;
//   - Name and x.Name: this module or a library that it uses has an exported name like this, or a string of it, such as a header field;
//   - mixedCase: an identifier of this module;
//
// and ratelimit_…, which must be the metric of a string, and paths to files. Pages about other libraries name what only these have.
func TestNamesInBackticksExist(t *testing.T) {
	n, checked := declaredNames(t), 0
	pages, err := filepath.Glob("*.md")
	require.NoError(t, err)
	for _, page := range append(pages, "../README.md", "../CONTRIBUTING.md") {
		ofOthers := page == "migrating.md" || page == "comparison.md" || page == "background.md"
		for _, text := range inBackticks(string(read(t, page))) {
			for _, mistake := range n.mistakes(text, ofOthers) {
				t.Errorf("%s: `%s`: %s", page, text, mistake)
			}
			checked++
		}
	}
	require.Greater(t, checked, 1000)
}

func TestStaleNamesAreFound(t *testing.T) {
	n := declaredNames(t)
	for text, stale := range map[string]bool{
		"Settles(v)": true, "Kept": true, "core.PerFortnight(1)": true, "Limit.MaxOut": true, "res.Vanish(ctx)": true, "errorStatuses": true,
		"ratelimit_gone_total": true, "core/nothing.go": true, "adapter.Exchange": true,
		"WantsDone(v)": false, "core.PerHour(5)": false, "Limit.MaxIn(d)": false, "res.Release(ctx)": false, "errorStatus": false,
		"Retry-After": false, "GET": false, "429": false, "a key": false, "ratelimit_decisions_total": false, "core/limit.go": false,
	} {
		assert.Equal(t, stale, len(n.mistakes(text, false)) > 0, text)
	}
}

var (
	anyFence = regexp.MustCompile("(?ms)^ *```.*?^ *```")
	quoted   = regexp.MustCompile("`([^`\n]+)`")
	metric   = regexp.MustCompile(`^ratelimit_[a-z_]+$`)
	filePath = regexp.MustCompile(`^[\w./-]+/[\w.-]+\.(go|md|lua|tmpl|yaml|yml|json)$`)
	exported = regexp.MustCompile(`^[A-Z]\w*[a-z]\w*$`)
	mixed    = regexp.MustCompile(`^[a-z]+[A-Z]\w*$`)
)

func inBackticks(page string) (texts []string) {
	for _, found := range quoted.FindAllStringSubmatch(anyFence.ReplaceAllString(page, ""), -1) {
		texts = append(texts, found[1])
	}
	return texts
}

// mistakes returns what is stale in a text in backticks. ofOthers says that its page names what other libraries have.
func (n *names) mistakes(text string, ofOthers bool) (found []string) {
	switch {
	case metric.MatchString(text):
		if !n.literals[text] {
			found = append(found, "no such metric")
		}
		return found
	case filePath.MatchString(text):
		if !exists(text) {
			found = append(found, "no such file")
		}
		return found
	}
	e, err := parser.ParseExpr(strings.NewReplacer("(…)", "()", ", …", "", "...", "", "…", "").Replace(text))
	if err != nil {
		return nil
	}
	switch e.(type) {
	case *ast.Ident, *ast.SelectorExpr, *ast.CallExpr:
	default:
		return nil // prose, and header fields: Retry-After is a difference
	}
	ast.Inspect(e, func(node ast.Node) bool {
		switch node := node.(type) {
		case *ast.SelectorExpr:
			if owner, ok := node.X.(*ast.Ident); ok {
				found = append(found, n.selected(owner.Name, node.Sel.Name, ofOthers)...)
				return false
			}
		case *ast.Ident:
			found = append(found, n.named(node.Name, ofOthers)...)
		}
		return true
	})
	return found
}

func (n *names) selected(owner, name string, ofOthers bool) []string {
	switch {
	case n.packages[owner] != nil:
		if ast.IsExported(name) && !n.packages[owner][name] {
			return []string{"package " + owner + " has no " + name}
		}
	case n.members[owner] != nil && !ofOthers:
		if !n.members[owner][name] && !n.foreign[name] {
			return []string{owner + " has no " + name}
		}
	default:
		return n.named(name, ofOthers)
	}
	return nil
}

func (n *names) named(name string, ofOthers bool) []string {
	known := n.public[name] || n.foreign[name] || n.literals[name]
	if !ofOthers && (exported.MatchString(name) && !known || mixed.MatchString(name) && !known && !n.private[name]) {
		return []string{"nothing has the name " + name}
	}
	return nil
}

// exists reports whether the repository has a file, as seen from its root, from the docs, or in any directory.
func exists(path string) bool {
	for _, from := range []string{"..", "."} {
		if _, err := os.Stat(filepath.Join(from, path)); err == nil {
			return true
		}
	}
	return false
}

// declaredNames reads all Go of the repository.
func declaredNames(t *testing.T) *names {
	t.Helper()
	n := &names{map[string]map[string]bool{}, map[string]map[string]bool{}, map[string]bool{}, map[string]bool{}, map[string]bool{}, map[string]bool{}}
	used, own := map[string]bool{}, map[string]bool{}
	require.NoError(t, filepath.WalkDir("..", func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || !strings.HasSuffix(path, ".go") || filepath.Base(path) == "names_test.go" {
			return err
		}
		file, err := parser.ParseFile(token.NewFileSet(), path, nil, parser.SkipObjectResolution)
		if err != nil {
			return err
		}
		internal := strings.Contains(filepath.ToSlash(path), "/internal/") || file.Name.Name == "main"
		n.declare(file, internal)
		ast.Inspect(file, func(node ast.Node) bool {
			switch node := node.(type) {
			case *ast.Ident:
				n.private[node.Name] = true
				if node.Obj == nil && internal {
					own[node.Name] = own[node.Name] || declares1(file, node.Name)
				}
			case *ast.SelectorExpr:
				used[node.Sel.Name] = true
			case *ast.BasicLit:
				n.read(node)
			}
			return true
		})
		return nil
	}))
	for name := range used {
		n.foreign[name] = !own[name]
	}
	return n
}
