package docs_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// Every link within the repository leads to a file, and to a heading of it.
func TestLinksLeadSomewhere(t *testing.T) {
	pages, err := filepath.Glob("*.md")
	require.NoError(t, err)
	above, err := filepath.Glob("../*.md")
	require.NoError(t, err)
	code := regexp.MustCompile("(?ms)^```.*?^```|`[^`\n]*`")
	link := regexp.MustCompile(`\]\(([^)\s]+)\)`)
	for _, page := range append(pages, above...) {
		text, err := os.ReadFile(page)
		require.NoError(t, err)
		for _, found := range link.FindAllStringSubmatch(code.ReplaceAllString(string(text), ""), -1) {
			target, anchor, _ := strings.Cut(found[1], "#")
			if strings.Contains(target, "://") {
				continue
			}
			path := page
			if target != "" {
				path = filepath.Join(filepath.Dir(page), target)
			}
			if _, err := os.Stat(path); err != nil {
				t.Errorf("%s links to %s, which does not exist", page, found[1])
				continue
			}
			if anchor != "" && !anchors(t, path)[anchor] {
				t.Errorf("%s links to %s, which has no such heading", page, found[1])
			}
		}
	}
}

// The README links to every page.
func TestReadmeNamesEveryPage(t *testing.T) {
	index := string(read(t, "../README.md"))
	pages, err := filepath.Glob("*.md")
	require.NoError(t, err)
	require.NotEmpty(t, pages)
	for _, page := range pages {
		assert.True(t, strings.Contains(index, "](docs/"+page+")"), "README.md has no link to %s", page)
	}
}

// anchors are the names that GitHub gives a page's headings.
func anchors(t *testing.T, page string) map[string]bool {
	t.Helper()
	text, err := os.ReadFile(page)
	require.NoError(t, err)
	names := map[string]bool{}
	dropped := regexp.MustCompile(`[^\p{L}\p{N} _-]`)
	for _, heading := range regexp.MustCompile(`(?m)^#+ (.+)$`).FindAllStringSubmatch(string(text), -1) {
		name := dropped.ReplaceAllString(strings.ToLower(heading[1]), "")
		names[strings.ReplaceAll(name, " ", "-")] = true
	}
	return names
}

// The way of a request is at most twelve files, none of them twice.
func TestTheWayOfARequestIsTrue(t *testing.T) {
	text, err := os.ReadFile("how-it-works.md")
	require.NoError(t, err)
	seen := make(map[string]bool)
	for _, row := range regexp.MustCompile("(?m)^- `([a-z]+/[\\w/.]*)` ").FindAllStringSubmatch(string(text), -1) {
		require.False(t, seen[row[1]], "%s is visited twice", row[1])
		seen[row[1]] = true
		require.FileExists(t, filepath.Join("..", row[1]))
	}
	require.NotEmpty(t, seen)
	require.LessOrEqual(t, len(seen), 12)
}

// Functions fit a screen, but for tests and what is generated. No bound splits a
// file: what one type does stands in one.
func TestFunctionsAreShort(t *testing.T) {
	found := 0
	require.NoError(t, filepath.WalkDir("..", func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go") {
			return err
		}
		files := token.NewFileSet()
		file, err := parser.ParseFile(files, path, nil, parser.ParseComments|parser.SkipObjectResolution)
		if err != nil || ast.IsGenerated(file) {
			return err
		}
		found++
		isShort := func(what string, from, to token.Pos, most int) {
			lines := files.Position(to).Line - files.Position(from).Line + 1
			assert.LessOrEqual(t, lines, most, "%s has too many lines: split it", what)
		}
		name := filepath.ToSlash(strings.TrimPrefix(path, ".."+string(filepath.Separator)))
		for _, decl := range file.Decls {
			if f, ok := decl.(*ast.FuncDecl); ok {
				isShort(name+" "+f.Name.Name, f.Pos(), f.End(), 60)
			}
		}
		return nil
	}))
	require.Greater(t, found, 300, "the premise: it finds the module's files")
}
