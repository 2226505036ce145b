package core_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// What go doc shows of core can be read there: no exported declaration is an
// alias, or has a type, of an internal package.
func TestExportedNamesNeedNoInternalPackage(t *testing.T) {
	entries, err := os.ReadDir(".")
	require.NoError(t, err)
	names := 0
	for _, entry := range entries {
		if !strings.HasSuffix(entry.Name(), ".go") || strings.HasSuffix(entry.Name(), "_test.go") {
			continue
		}
		file, err := parser.ParseFile(token.NewFileSet(), entry.Name(), nil, parser.SkipObjectResolution)
		require.NoError(t, err)
		internal := map[string]bool{}
		for _, i := range file.Imports {
			path := strings.Trim(i.Path.Value, `"`)
			internal[path[strings.LastIndexByte(path, '/')+1:]] = strings.Contains(path, "/internal/")
		}
		ast.FileExports(file) // leaves exported names, and of these the exported fields
		ast.Inspect(file, func(n ast.Node) bool {
			switch n := n.(type) {
			case *ast.BlockStmt: // the body of a function
				return false
			case *ast.TypeSpec:
				names++
				assert.True(t, !n.Assign.IsValid() || n.Name.Name == "Store", "%s is an alias", n.Name)
			case *ast.SelectorExpr:
				if of, ok := n.X.(*ast.Ident); ok {
					assert.False(t, internal[of.Name], "%s: an exported declaration has %s.%s", entry.Name(), of.Name, n.Sel)
				}
			}
			return true
		})
	}
	assert.Greater(t, names, 10, "premise")
}
