package docs_test

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// comparison.md links to code that needs other libraries. It is compiled and
// tested in benchmarks/migration, whose module has them. The page must link to
// the code of each library, and show no Go, which nothing would compile.
func TestMigratingLinksToCodeThatCompiles(t *testing.T) {
	text := string(read(t, "comparison.md"))
	files, err := filepath.Glob("../benchmarks/migration/*.go")
	require.NoError(t, err)
	linked := 0
	for _, file := range files {
		if name := filepath.Base(file); !strings.HasSuffix(name, "_test.go") && name != "migration.go" {
			require.Contains(t, text, "[before and after](../benchmarks/migration/"+name+")")
			linked++
		}
	}
	require.GreaterOrEqual(t, linked, 9, "the programs were not found")
	for _, block := range fence.FindAllString(text, -1) {
		t.Errorf("the page shows Go: link to it in benchmarks/migration instead:\n%s", block)
	}
}

// The versions on the page are those of benchmarks/go.mod, against which their
// code compiles. Libraries that comparison.md lists as "in the lists alone" it
// does not require.
func TestThePageNamesTheVersionsOfPeers(t *testing.T) {
	mod, err := os.ReadFile("../benchmarks/go.mod")
	require.NoError(t, err)
	measured, rest, _ := strings.Cut(string(read(t, "comparison.md")), "In the lists alone:\n\n")
	_, rest, _ = strings.Cut(rest, "\n\n") // after the list
	versions := regexp.MustCompile(`\bv\d+\.\d+\.\d+\b`).FindAllString(measured+rest, -1)
	require.NotEmpty(t, versions)
	for _, v := range versions {
		require.Contains(t, string(mod), " "+v+"\n", "comparison.md tells of a version that benchmarks/go.mod does not require")
	}
}
