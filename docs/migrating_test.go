package docs_test

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// migrating.md shows code that needs other libraries, so it is compiled in benchmarks/migration, whose module has
// them. The page must show bodies of functions that stand there, and all of them.
func TestMigratingShowsCodeThatCompiles(t *testing.T) {
	text, err := os.ReadFile("migrating.md")
	require.NoError(t, err)
	shown := map[string]bool{}
	for _, block := range fence.FindAllStringSubmatch(string(text), -1) {
		shown[block[1]] = true
	}

	paths, err := filepath.Glob("../benchmarks/migration/*.go")
	require.NoError(t, err)
	function := regexp.MustCompile(`(?ms)^func (\w+)\([^{]*\{\n(.*?)^\}`)
	for _, path := range paths {
		source, err := os.ReadFile(path)
		require.NoError(t, err)
		for _, f := range function.FindAllStringSubmatch(string(source), -1) {
			body := regexp.MustCompile(`(?m)^\t`).ReplaceAllString(f[2], "")
			if !shown[body] {
				t.Errorf("%s: %s is not on the page as it is", path, f[1])
			}
			delete(shown, body)
		}
	}
	for block := range shown {
		t.Errorf("the page shows code that is not in benchmarks/migration:\n%s", block)
	}
}

// The versions on the pages are those of benchmarks/go.mod, against which their code compiles.
func TestPagesNameTheVersionsOfPeers(t *testing.T) {
	mod, err := os.ReadFile("../benchmarks/go.mod")
	require.NoError(t, err)
	for _, page := range []string{"migrating.md", "comparison.md"} {
		text, err := os.ReadFile(page)
		require.NoError(t, err)
		versions := regexp.MustCompile(`\bv\d+\.\d+\.\d+\b`).FindAllString(string(text), -1)
		require.NotEmpty(t, versions, page)
		for _, v := range versions {
			if !strings.Contains(string(mod), " "+v+"\n") {
				t.Errorf("%s tells of %s, which benchmarks/go.mod does not require", page, v)
			}
		}
	}
}
