package docs_test

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// Every claim of comparison.md about this library names a test, and every test
// that the page names exists.
func TestClaimsOfTheComparisonHaveTests(t *testing.T) {
	text := string(read(t, "comparison.md"))
	named := regexp.MustCompile("`([a-z/]+)\\.((?:Test|Fuzz)\\w+)`")
	_, list, found := strings.Cut(text, "\n## What this library has\n")
	require.True(t, found)
	list, _, _ = strings.Cut(list, "\n## ")
	claims := strings.Split(list, "\n- ")[1:]
	require.Greater(t, len(claims), 10, "the premise: the claims are found")
	for _, claim := range claims {
		require.Regexp(t, named, claim, "no test is named")
	}
	for _, name := range named.FindAllStringSubmatch(text, -1) {
		require.True(t, declares(t, filepath.Join("..", name[1]), name[2]), "comparison.md names %s.%s, which does not exist", name[1], name[2])
	}
}

// declares reports whether a test file of the package in dir has the function.
func declares(t *testing.T, dir, function string) bool {
	t.Helper()
	paths, err := filepath.Glob(filepath.Join(dir, "*_test.go"))
	require.NoError(t, err)
	for _, path := range paths {
		source, err := os.ReadFile(path)
		require.NoError(t, err)
		if strings.Contains(string(source), "\nfunc "+function+"(") {
			return true
		}
	}
	return false
}
