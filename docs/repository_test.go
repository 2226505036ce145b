package docs_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func read(t *testing.T, path string) []byte {
	t.Helper()
	text, err := os.ReadFile(path)
	require.NoError(t, err)
	return text
}

// glob returns the files that match a pattern, at least one.
func glob(t *testing.T, pattern string) []string {
	t.Helper()
	files, err := filepath.Glob(pattern)
	require.NoError(t, err)
	require.NotEmpty(t, files, pattern)
	return files
}

// pages returns README.md and the pages beside this file.
func pages(t *testing.T) []string {
	t.Helper()
	return append(glob(t, "*.md"), "../README.md")
}

// goFiles calls do with each file of Go of the repository, in all modules. Its
// path begins at the top of the repository.
func goFiles(t *testing.T, do func(path string, file *ast.File)) {
	t.Helper()
	found := 0
	require.NoError(t, fs.WalkDir(os.DirFS(".."), ".", func(path string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case d.IsDir() && (d.Name() == "testdata" || path != "." && strings.HasPrefix(d.Name(), ".")):
			return fs.SkipDir
		case d.IsDir() || !strings.HasSuffix(path, ".go"):
			return nil
		}
		found++
		file, err := parser.ParseFile(token.NewFileSet(), filepath.Join("..", path), nil, parser.ParseComments|parser.SkipObjectResolution)
		require.NoError(t, err)
		do(path, file)
		return nil
	}))
	require.Greater(t, found, 300, "the premise: the files are found")
}
