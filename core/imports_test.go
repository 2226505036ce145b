package core_test

import (
	"os/exec"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

const module = "github.com/tokenbucket-go/ratelimit"

// A program that uses core links nothing that it did not choose. Stores and
// readers that need a library are packages of their own.
func TestCoreImportsTheStandardLibraryAlone(t *testing.T) {
	out, err := exec.Command("go", "list", "-deps", "-f", "{{if not .Standard}}{{.ImportPath}}{{end}}", module+"/core").Output()
	require.NoError(t, err)
	for path := range strings.FieldsSeq(string(out)) {
		assert.Contains(t, path, module+"/", "core imports the standard library and this module only")
	}
}

// What go doc shows of core can be read there: no exported declaration is an
// alias, or has a type, of an internal package.
func TestExportedNamesNeedNoInternalPackage(t *testing.T) {
	internal, err := exec.Command("go", "list", "-f", "{{.Name}}", module+"/core/internal/...").Output()
	require.NoError(t, err)
	doc, err := exec.Command("go", "doc", "-all", module+"/core").Output()
	require.NoError(t, err)
	require.Contains(t, string(doc), "\ntype Limiter struct", "premise")
	for name := range strings.FieldsSeq(string(internal)) {
		assert.NotRegexp(t, `[^\w.]`+name+`\.[A-Z]`, string(doc))
	}
	assert.Equal(t, []string{"type Store = store.Store"}, regexp.MustCompile(`(?m)^type \w+ = .*`).FindAllString(string(doc), -1), "aliases")
}
