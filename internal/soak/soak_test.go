package soak_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"path/filepath"
	"strings"
	"testing"

	"github.com/tokenbucket-go/ratelimit/internal/soak"
)

func TestBudgetIsAShare(t *testing.T) {
	for env, want := range map[string][2]int{"": {60, 10}, "0": {60, 10}, "0.5": {130, 6}, "1": {200, 1}, "2": {200, 1}} {
		t.Setenv("SOAK", env)
		if many, step := soak.Budget(60, 200), soak.Budget(10, 1); many != want[0] || step != want[1] {
			t.Errorf("SOAK=%s: the budgets from 60 to 200 and from 10 to 1 are %d and %d, want %v", env, many, step, want)
		}
	}
}

func TestOnlyRunsAShare(t *testing.T) {
	for env, want := range map[string]int{"": 0, "0": 0, "0.5": 500, "1": 1000} {
		t.Setenv("SOAK", env)
		ran := 0
		for range 1000 {
			if test := (&recorder{TB: t}); !test.skips() {
				ran++
			}
		}
		if ran < want-100 || ran > want+100 || want%1000 == 0 && ran != want {
			t.Errorf("SOAK=%s: %d of 1000 tests ran, want %d", env, ran, want)
		}
	}
}

// recorder is a test that notes whether it is skipped.
type recorder struct {
	testing.TB
	skipped bool
}

func (r *recorder) Skipf(string, ...any) { r.skipped = true }

func (r *recorder) skips() bool {
	soak.Only(r, TestBudgetIsAShare)
	return r.skipped
}

// quickTests returns what a test passes to Only, in its subtests too if these
// count.
func quickTests(test ast.Node, subtests bool) (names []string) {
	ast.Inspect(test, func(n ast.Node) bool {
		if call, ok := n.(*ast.CallExpr); ok && len(call.Args) == 2 {
			only, _ := call.Fun.(*ast.SelectorExpr)
			if name, ok := call.Args[1].(*ast.Ident); ok && only != nil && only.Sel.Name == "Only" {
				names = append(names, name.Name)
			}
		}
		_, closure := n.(*ast.FuncLit)
		return !closure || subtests
	})
	return names
}

// Each rule is shown outside ./scripts/soak: the test that Only names is not
// skipped itself.
func TestQuickTestsRunThemselves(t *testing.T) {
	skipped, quick := make(map[string]bool), make(map[string]bool)
	err := filepath.WalkDir("../..", func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || !strings.HasSuffix(path, "_test.go") {
			return err
		}
		file, err := parser.ParseFile(token.NewFileSet(), path, nil, parser.SkipObjectResolution)
		if err != nil {
			return err
		}
		for _, decl := range file.Decls {
			for _, name := range quickTests(decl, true) {
				quick[filepath.Dir(path)+" "+name] = true
			}
			if f, ok := decl.(*ast.FuncDecl); ok && len(quickTests(f, false)) > 0 {
				skipped[filepath.Dir(path)+" "+f.Name.Name] = true
			}
		}
		return nil
	})
	if err != nil || len(skipped) == 0 || len(quick) < 2 {
		t.Fatalf("the premise: tests call soak.Only; found are %v and %v, %v", skipped, quick, err)
	}
	for name := range quick {
		if skipped[name] {
			t.Errorf("%s shows the rule of another test in ./scripts/test, but runs in ./scripts/soak alone", name)
		}
	}
}
