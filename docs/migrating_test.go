package docs_test

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// migrating.md shows code that needs other libraries. It is compiled and tested
// in benchmarks/migration, whose module has them. The page must link to the
// code before. It must show the code after without its package clause and
// imports, or link to it if it has more than 50 lines. It must show no other
// Go.
func TestMigratingShowsCodeThatCompiles(t *testing.T) {
	text, err := os.ReadFile("migrating.md")
	require.NoError(t, err)
	shown := map[string]bool{}
	for _, block := range fence.FindAllStringSubmatch(string(text), -1) {
		shown[block[1]] = true
	}

	befores, err := filepath.Glob("../benchmarks/migration/*_before.go")
	require.NoError(t, err)
	require.NotEmpty(t, befores)
	for _, before := range befores {
		if !strings.Contains(string(text), "(../benchmarks/migration/"+filepath.Base(before)+")") {
			t.Errorf("the page does not link to %s", before)
		}
		after := strings.Replace(before, "_before", "_after", 1)
		source, err := os.ReadFile(after)
		require.NoError(t, err)
		_, program, found := strings.Cut(string(source), "\n)\n\n") // the end of the imports
		require.True(t, found, after)
		if linked := strings.Contains(string(text), "(../benchmarks/migration/"+filepath.Base(after)+")"); strings.Count(program, "\n") > 50 {
			require.True(t, linked, "the page does not link to %s", after)
		} else if !shown[program] {
			t.Errorf("the page does not show %s as it is", after)
		}
		delete(shown, program)
	}
	for block := range shown {
		t.Errorf("the page shows code that is not in benchmarks/migration:\n%s", block)
	}
}

// The versions on the pages are those of benchmarks/go.mod, against which their
// code compiles. Libraries that comparison.md lists as "in the lists alone" it
// does not require.
func TestPagesNameTheVersionsOfPeers(t *testing.T) {
	mod, err := os.ReadFile("../benchmarks/go.mod")
	require.NoError(t, err)
	for _, page := range []string{"migrating.md", "comparison.md"} {
		text, err := os.ReadFile(page)
		require.NoError(t, err)
		measured, rest, _ := strings.Cut(string(text), "In the lists alone:\n\n")
		_, rest, _ = strings.Cut(rest, "\n\n") // after the list
		versions := regexp.MustCompile(`\bv\d+\.\d+\.\d+\b`).FindAllString(measured+rest, -1)
		require.NotEmpty(t, versions, page)
		for _, v := range versions {
			if !strings.Contains(string(mod), " "+v+"\n") {
				t.Errorf("%s tells of %s, which benchmarks/go.mod does not require", page, v)
			}
		}
	}
}
