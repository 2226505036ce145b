package middleware_test

import (
	"go/parser"
	"go/token"
	"os"
	"strings"
	"testing"
)

// This package knows no protocol: an interceptor of RPCs uses it as it is.
func TestNoFileImportsHTTP(t *testing.T) {
	files, err := os.ReadDir(".")
	if err != nil {
		t.Fatal(err)
	}
	seen := 0
	for _, f := range files {
		if !strings.HasSuffix(f.Name(), ".go") || strings.HasSuffix(f.Name(), "_test.go") {
			continue
		}
		seen++
		parsed, err := parser.ParseFile(token.NewFileSet(), f.Name(), nil, parser.ImportsOnly)
		if err != nil {
			t.Fatal(err)
		}
		for _, i := range parsed.Imports {
			if path := strings.Trim(i.Path.Value, `"`); path == "net/http" || strings.HasSuffix(path, "/adapter") {
				t.Errorf("%s imports %s, which is for HTTP: it belongs in package adapter", f.Name(), path)
			}
		}
	}
	if seen == 0 {
		t.Fatal("the premise: the package has files")
	}
}
