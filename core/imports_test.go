package core_test

import (
	"os/exec"
	"strings"
	"testing"
)

// TestCoreImportsTheStandardLibraryAlone: a program that uses core links
// nothing that it did not choose. Stores and readers that need a library are
// packages of their own.
func TestCoreImportsTheStandardLibraryAlone(t *testing.T) {
	const module = "github.com/tokenbucket-go/ratelimit"
	out, err := exec.Command("go", "list", "-deps", "-f", "{{if not .Standard}}{{.ImportPath}}{{end}}", module+"/core").Output()
	if err != nil {
		t.Fatalf("go list -deps: %v", err)
	}
	for path := range strings.FieldsSeq(string(out)) {
		if !strings.HasPrefix(path, module+"/") {
			t.Errorf("core must import the standard library and this module only, and links %s", path)
		}
	}
}
