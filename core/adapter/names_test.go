package adapter_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// names are the identifiers that every adapter exports.
var names = []string{"Allow",
	"AllFromContext", "ByContextValue", "ByCookie", "ByHeader", "ByIP", "ByMethod", "ByParam", "ByPath", "ByQuery", "ByRoute",
	"ClientIP", "CostByContentLength", "CostByContentLengthOr", "FirstOf", "FromContext", "Global", "Join", "KeyFunc", "New", "NewTogether",
	"OnDenied", "OnError", "Option", "PerIP", "Rule", "WithCost", "WithLimits", "WithPlan", "WithRefund", "WithSettle", "WithSkip", "WithFloor", "WithUnits",
}

// ownNames are the identifiers that only one adapter exports.
var ownNames = map[string][]string{"../../httplimit": {"ByRouteOf"}}

// Users who know one adapter know all. The adapters are the packages of this
// module that declare KeyFunc and New, but for clientlimit, which is for the
// other end.
func TestAllAdaptersExportTheSameNames(t *testing.T) {
	const root = "../.."
	adapters := 0
	err := filepath.WalkDir(root, func(dir string, d os.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case !d.IsDir():
			return nil
		case dir == root+"/benchmarks" || dir == root+"/core" || dir == root+"/clientlimit" || strings.HasPrefix(d.Name(), ".") && dir != root:
			return filepath.SkipDir
		case dir != root && exists(dir+"/go.mod"): // a module of its own is no adapter for HTTP
			return filepath.SkipDir
		}
		exported := exports(t, dir)
		if !slices.Contains(exported, "KeyFunc") || !slices.Contains(exported, "New") {
			return nil
		}
		adapters++
		for _, name := range names {
			if !slices.Contains(exported, name) {
				t.Errorf("%s does not export %s, which the other adapters do", dir, name)
			}
		}
		for _, name := range exported {
			if !slices.Contains(names, name) && !slices.Contains(ownNames[dir], name) && !strings.HasPrefix(dir, root+"/examples/") {
				t.Errorf("%s exports %s, which the other adapters don't", dir, name)
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if adapters < 7 {
		t.Fatalf("the premise: there are 7 adapters or more, and %d were found", adapters)
	}
}

// interceptors are the packages beyond HTTP, with the identifiers that not all
// of them export.
var interceptors = map[string][]string{
	"../../connectlimit":   {"New", "NewTogether", "ByHeader", "ByMethod", "ByPeer", "ByService", "ClientIP", "HealthAndReflection", "PerMessage", "PerMessageWait"},
	"../../grpclimit":      {"Unary", "UnaryTogether", "Stream", "StreamTogether", "ByMetadata", "ByMethod", "ByPeer", "ByService", "ClientIP", "HealthAndReflection", "PerMessage", "PerMessageWait"},
	"../../mcplimit":       {"New", "NewTogether", "ByHeader", "ByMethod", "BySession", "ByTool", "ByTokenSubject", "AllMethods", "Methods", "RefuseAsToolResult", "CodeLimited", "CodeUnavailable"},
	"../../mcplimit/mcpgo": {"New", "NewTogether", "ByHeader", "BySession", "ByTool"},
}

// rpcNames are the identifiers that all packages beyond HTTP export. Those that
// adapters for HTTP have too are the same.
var rpcNames = []string{
	"AllFromContext", "Allow", "ByContextValue", "Call", "FirstOf", "FromContext", "Global", "Join", "KeyFunc", "OnDenied", "OnError", "Option", "Rule",
	"WithCost", "WithLimits", "WithPlan", "WithRefund", "WithSettle", "WithSkip", "WithFloor", "WithUnits",
}

// Users who know one interceptor know the other.
func TestInterceptorsExportTheSameNames(t *testing.T) {
	for dir, own := range interceptors {
		exported := exports(t, dir)
		for _, name := range append(own, rpcNames...) {
			if !slices.Contains(exported, name) {
				t.Errorf("%s does not export %s", dir, name)
			}
		}
		for _, name := range exported {
			if !slices.Contains(rpcNames, name) && !slices.Contains(own, name) {
				t.Errorf("%s exports %s, which the other interceptors don't", dir, name)
			}
		}
	}
}

func exists(file string) bool {
	_, err := os.Stat(file)
	return err == nil
}

// exports returns the functions, types, variables and constants that a package
// exports, without methods.
func exports(t *testing.T, dir string) (found []string) {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(dir, "*.go"))
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range files {
		if strings.HasSuffix(file, "_test.go") {
			continue
		}
		parsed, err := parser.ParseFile(token.NewFileSet(), file, nil, parser.SkipObjectResolution)
		if err != nil {
			t.Fatal(err)
		}
		for _, d := range parsed.Decls {
			switch d := d.(type) {
			case *ast.FuncDecl:
				if d.Recv == nil {
					found = append(found, d.Name.Name)
				}
			case *ast.GenDecl:
				for _, s := range d.Specs {
					switch s := s.(type) {
					case *ast.TypeSpec:
						found = append(found, s.Name.Name)
					case *ast.ValueSpec:
						for _, name := range s.Names {
							found = append(found, name.Name)
						}
					}
				}
			}
		}
	}
	return slices.DeleteFunc(found, func(name string) bool { return !ast.IsExported(name) })
}
