package docs_test

import (
	"go/ast"
	"go/doc"
	"go/doc/comment"
	"go/parser"
	"go/token"
	"io/fs"
	"maps"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// shownPackage is a directory of Go files that pkg.go.dev shows.
type shownPackage struct {
	name     string
	comments []string        // of the package
	imports  map[string]bool // without those of its tests
	examples []*doc.Example
}

// shownPackages are the packages of all modules that others import, by their
// directories.
func shownPackages(t *testing.T) map[string]*shownPackage {
	t.Helper()
	found := map[string]*shownPackage{}
	require.NoError(t, fs.WalkDir(os.DirFS(".."), ".", func(file string, d fs.DirEntry, err error) error {
		switch name := d.Name(); {
		case err != nil:
			return err
		case d.IsDir() && (slices.Contains([]string{"benchmarks", "docs", "examples", "internal", "testdata"}, name) || file != "." && strings.ContainsAny(name[:1], "._")):
			return fs.SkipDir
		case d.IsDir() || !strings.HasSuffix(name, ".go"):
			return nil
		}
		parsed, err := parser.ParseFile(token.NewFileSet(), filepath.Join("..", file), nil, parser.ParseComments)
		require.NoError(t, err)
		p := found[path.Dir(file)]
		if p == nil {
			p = &shownPackage{imports: map[string]bool{}}
			found[path.Dir(file)] = p
		}
		p.add(file, parsed)
		return nil
	}))
	maps.DeleteFunc(found, func(_ string, p *shownPackage) bool { return p.name == "main" })
	require.Contains(t, found, "core")
	require.Contains(t, found, "mcplimit/mcpgo")
	return found
}

func (p *shownPackage) add(file string, parsed *ast.File) {
	if strings.HasSuffix(file, "_test.go") {
		p.examples = append(p.examples, doc.Examples(parsed)...)
		return
	}
	p.name = parsed.Name.Name
	if parsed.Doc != nil {
		p.comments = append(p.comments, parsed.Doc.Text())
	}
	for _, i := range parsed.Imports {
		p.imports[strings.Trim(i.Path.Value, `"`)] = true
	}
}

// Each package says on pkg.go.dev what it is, shows an example that go test
// runs, and links to its page. Suites for tests only compile theirs, because
// go test alone makes a testing.T.
func TestPackagesShowAnExampleAndLeadToTheirPage(t *testing.T) {
	for dir, p := range shownPackages(t) {
		if assert.Len(t, p.comments, 1, "package comments of %s", dir) {
			assert.True(t, leadsToAPage(t, p.comments[0]), `%s: its comment has no link to a page: end it with "See [docs/PAGE.md]." and "[docs/PAGE.md]: %sdocs/PAGE.md"`, dir, onMain)
		}
		shows := slices.ContainsFunc(p.examples, func(e *doc.Example) bool {
			return e.Output != "" || e.EmptyOutput || p.imports["testing"]
		})
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
			link, ok := part.(*comment.Link)
			if !ok {
				continue
			}
			if page, ok := strings.CutPrefix(link.URL, onMain); ok {
				assert.FileExists(t, filepath.Join("..", page), "a link to %s", page)
				found = true
			}
		}
	}
	return found
}
