package docs_test

import (
	"go/ast"
	"go/doc"
	"go/parser"
	"go/token"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// Every exported type of core and of each adapter has a runnable example, and each package one of its own.
func TestEveryTypeHasAnExample(t *testing.T) {
	for _, dir := range []string{"core", "core/redisstore", "core/policyfile", "core/storestats", "ginlimit", "echolimit", "chilimit", "fiberlimit", "httplimit"} {
		paths, err := filepath.Glob(filepath.Join("..", dir, "*.go"))
		require.NoError(t, err)
		var types []string
		examples := map[string]bool{}
		for _, path := range paths {
			file, err := parser.ParseFile(token.NewFileSet(), path, nil, parser.ParseComments)
			require.NoError(t, err)
			if strings.HasSuffix(path, "_test.go") {
				for _, e := range doc.Examples(file) {
					examples[e.Name] = true
				}
				continue
			}
			for _, d := range file.Decls {
				if g, ok := d.(*ast.GenDecl); ok && g.Tok == token.TYPE {
					for _, spec := range g.Specs {
						if name := spec.(*ast.TypeSpec).Name; name.IsExported() {
							types = append(types, name.Name)
						}
					}
				}
			}
		}
		require.NotEmpty(t, types, dir)
		if !examples[""] {
			t.Errorf("package %s has no Example", dir)
		}
		for _, name := range types {
			if !examples[name] {
				t.Errorf("%s.%s has no example: write Example%s", dir, name, name)
			}
		}
	}
}
