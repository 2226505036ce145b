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
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// The map of CONTRIBUTING.md names files that exist.
func TestTheMapIsTrue(t *testing.T) {
	text, err := os.ReadFile("../CONTRIBUTING.md")
	require.NoError(t, err)
	named := regexp.MustCompile("`([a-z]+/[\\w/.]*)`").FindAllStringSubmatch(string(text), -1)
	require.Greater(t, len(named), 30)
	for _, name := range named {
		if _, err := os.Stat(filepath.Join("..", name[1])); err != nil {
			t.Errorf("CONTRIBUTING.md names %s, which does not exist", name[1])
		}
	}
}

// Rows of the map that list files list all of them, and nothing else. Packages of a row are separated by commas, and their files
// by semicolons. A row of a directory of packages lists these; files follow in parentheses where there are several.
func TestTheMapListsEveryFile(t *testing.T) {
	text, err := os.ReadFile("../CONTRIBUTING.md")
	require.NoError(t, err)
	rows := 0
	for _, row := range regexp.MustCompile("(?m)^\\| (`[a-z].*?) \\| .* \\| (.+) \\|$").FindAllStringSubmatch(string(text), -1) {
		if strings.TrimSpace(row[2]) == "" || strings.HasPrefix(row[2], "`") {
			continue
		}
		rows++
		dirs := regexp.MustCompile("`([^`]+)/`").FindAllStringSubmatch(row[1], -1)
		if strings.Contains(row[2], "(") { // packages below one directory
			for _, name := range regexp.MustCompile(`(\w+)(?: \(([^)]*)\))?`).FindAllStringSubmatch(row[2], -1) {
				files := name[2]
				if files == "" {
					files = name[1]
				}
				listsFiles(t, dirs[0][1]+"/"+name[1], files)
			}
			continue
		}
		lists := strings.Split(row[2], "; ")
		if assert.Len(t, lists, len(dirs), "as many lists of files as packages: %s", row[0]) {
			for i, dir := range dirs {
				listsFiles(t, dir[1], lists[i])
			}
		}
	}
	require.Greater(t, rows, 8)
}

// listsFiles checks that a list names the files of a package that are no tests.
func listsFiles(t *testing.T, dir, list string) {
	t.Helper()
	var files []string
	for _, ext := range []string{".go", ".lua"} {
		names, err := filepath.Glob(filepath.Join("..", dir, "*"+ext))
		require.NoError(t, err)
		for _, name := range names {
			if base := strings.TrimSuffix(filepath.Base(name), ext); !strings.HasSuffix(base, "_test") && !slices.Contains(files, base) {
				files = append(files, base)
			}
		}
	}
	assert.ElementsMatch(t, files, strings.Split(list, ", "), "the files of %s", dir)
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

// Functions fit a screen, and files are no longer than the field's good ones. Exempt are tests, the simulation that tests of two packages
// play, and what is generated.
func TestFilesAndFunctionsAreShort(t *testing.T) {
	found := 0
	require.NoError(t, filepath.WalkDir("..", func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go") ||
			strings.Contains(filepath.ToSlash(path), "/internal/definitions/") {
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
		isShort(name, file.FileStart, file.FileEnd-1, 450)
		for _, decl := range file.Decls {
			if f, ok := decl.(*ast.FuncDecl); ok {
				isShort(name+" "+f.Name.Name, f.Pos(), f.End(), 60)
			}
		}
		return nil
	}))
	require.Greater(t, found, 300, "the premise: it finds the module's files")
}
