package core_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"go/types"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// TestFilesUseWhatStandsBelow holds the files of a package to one order: no two use each other, not even by way of
// others. So each can be read with only those below it in mind. A field that points to a type uses nothing of it: a result
// points to its limiter.
func TestFilesUseWhatStandsBelow(t *testing.T) {
	for _, dir := range []string{".", "store", "internal/bucket", "internal/limit", "internal/policyjson", "internal/header", "redisstore", "policyfile", "middleware", "adapter"} {
		t.Run(dir, func(t *testing.T) {
			if _, err := os.Stat(dir); err != nil {
				t.Skip("no such package")
			}
			uses := fileUses(t, dir)
			require.NotEmpty(t, uses, "the premise: files use each other")
			for _, from := range slices.Sorted(maps.Keys(uses)) {
				for _, to := range slices.Sorted(maps.Keys(uses[from])) {
					if path := pathTo(uses, to, from, map[string]bool{}); path != nil {
						assert.Fail(t, "a cycle of files", "%s uses %v of %s, which uses it back by way of %v", from, uses[from][to], to, path)
					}
				}
			}
		})
	}
}

// pathTo is a way from one file to another, or nil.
func pathTo(uses map[string]map[string][]string, from, to string, seen map[string]bool) []string {
	if from == to {
		return []string{to}
	}
	seen[from] = true
	for next := range uses[from] {
		if seen[next] {
			continue
		}
		if path := pathTo(uses, next, to, seen); path != nil {
			return append([]string{from}, path...)
		}
	}
	return nil
}

// nothing imports every package as an empty one: what a package declares itself is all that matters here.
type nothing struct{}

func (nothing) Import(path string) (*types.Package, error) {
	p := types.NewPackage(path, filepath.Base(path))
	p.MarkComplete()
	return p, nil
}

// pointersIn returns the names of types that fields of structs point to.
func pointersIn(files []*ast.File) map[*ast.Ident]bool {
	names := make(map[*ast.Ident]bool)
	for _, file := range files {
		ast.Inspect(file, func(n ast.Node) bool {
			if s, ok := n.(*ast.StructType); ok {
				for _, f := range s.Fields.List {
					if star, ok := f.Type.(*ast.StarExpr); ok {
						if name, ok := star.X.(*ast.Ident); ok {
							names[name] = true
						}
					}
				}
			}
			return true
		})
	}
	return names
}

// fileUses returns, for each file of a package, which names it uses of which others.
func fileUses(t *testing.T, dir string) map[string]map[string][]string {
	t.Helper()
	files := token.NewFileSet()
	names, err := filepath.Glob(filepath.Join(dir, "*.go"))
	require.NoError(t, err)
	var parsed []*ast.File
	for _, name := range names {
		if strings.HasSuffix(name, "_test.go") {
			continue
		}
		file, err := parser.ParseFile(files, name, nil, parser.SkipObjectResolution)
		require.NoError(t, err)
		parsed = append(parsed, file)
	}
	info := &types.Info{Uses: make(map[*ast.Ident]types.Object)}
	config := types.Config{Importer: nothing{}, Error: func(error) {}} // what comes from elsewhere is an error, and is no matter
	pkg, _ := config.Check(dir, files, parsed, info)
	place := func(p token.Pos) string { return filepath.Base(files.Position(p).Filename) }
	uses, pointers := make(map[string]map[string][]string), pointersIn(parsed)
	for name, object := range info.Uses {
		if object.Pkg() != pkg || pointers[name] {
			continue
		}
		_, method := object.(*types.Func)
		if object.Parent() != pkg.Scope() && !method {
			continue
		}
		from, to := place(name.Pos()), place(object.Pos())
		if from == to {
			continue
		}
		if uses[from] == nil {
			uses[from] = make(map[string][]string)
		}
		if !slices.Contains(uses[from][to], name.Name) {
			uses[from][to] = append(uses[from][to], name.Name)
		}
	}
	return uses
}
