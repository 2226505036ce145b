package adapter_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// Users who know one adapter know all. httplimit has ByRouteOf besides.
func TestAllAdaptersExportTheSameNames(t *testing.T) {
	want := slices.DeleteFunc(exports(t, "httplimit"), func(name string) bool { return name == "ByRouteOf" })
	for _, dir := range []string{"ginlimit", "echolimit", "echolimit/v5", "chilimit", "fiberlimit", "fiberlimit/v3"} {
		assert.Equal(t, want, exports(t, dir), dir)
	}
}

// Users who know one interceptor know the others: what all of them export, with
// what stands beside it in each.
func TestInterceptorsExportTheSameNames(t *testing.T) {
	common := strings.Fields("AllFromContext Allow ByContextValue Call FirstOf FromContext Global Join KeyFunc OnDenied OnError Option Rule " +
		"WithCost WithFloor WithLimits WithPlan WithRefund WithSettle WithSkip WithUnits")
	assert.Subset(t, exports(t, "httplimit"), slices.DeleteFunc(slices.Clone(common), func(name string) bool { return name == "Call" }))
	for dir, own := range map[string]string{
		"connectlimit":   "New NewTogether ByHeader ByMethod ByPeer ByService ClientIP HealthAndReflection PerMessage PerMessageWait",
		"grpclimit":      "Unary UnaryTogether Stream StreamTogether ByMetadata ByMethod ByPeer ByService ClientIP HealthAndReflection PerMessage PerMessageWait",
		"mcplimit":       "New NewTogether ByHeader ByMethod BySession ByTool ByTokenSubject AllMethods Methods RefuseAsToolResult CodeLimited CodeUnavailable",
		"mcplimit/mcpgo": "New NewTogether ByHeader BySession ByTool",
	} {
		assert.ElementsMatch(t, append(strings.Fields(own), common...), exports(t, dir), dir)
	}
}

// exports returns the functions, types, variables and constants that a package
// exports, without methods, in order.
func exports(t *testing.T, dir string) (found []string) {
	t.Helper()
	files, err := filepath.Glob("../../" + dir + "/*.go")
	require.NoError(t, err)
	add := func(names ...*ast.Ident) {
		for _, name := range names {
			if name.IsExported() {
				found = append(found, name.Name)
			}
		}
	}
	for _, file := range files {
		if strings.HasSuffix(file, "_test.go") {
			continue
		}
		parsed, err := parser.ParseFile(token.NewFileSet(), file, nil, parser.SkipObjectResolution)
		require.NoError(t, err)
		for _, d := range parsed.Decls {
			switch d := d.(type) {
			case *ast.FuncDecl:
				if d.Recv == nil {
					add(d.Name)
				}
			case *ast.GenDecl:
				for _, s := range d.Specs {
					switch s := s.(type) {
					case *ast.TypeSpec:
						add(s.Name)
					case *ast.ValueSpec:
						add(s.Names...)
					}
				}
			}
		}
	}
	slices.Sort(found)
	return found
}
