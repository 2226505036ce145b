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
// it names exists.
func TestClaimsOfTheComparisonHaveTests(t *testing.T) {
	text, err := os.ReadFile("comparison.md")
	require.NoError(t, err)
	named := regexp.MustCompile("`([a-z/]+)\\.((?:Test|Fuzz)\\w+)`")
	rows := 0
	ours := false                                                                             // within a table with a column of this library
	list := false                                                                             // within the list of what it has
	for line := range strings.SplitSeq(strings.ReplaceAll(string(text), "\n  ", " "), "\n") { // items of a list are one line each
		cells := strings.Split(line, " | ")
		switch {
		case strings.HasPrefix(line, "| what | ratelimit |"):
			ours = true
			continue
		case line == "## What one of the others has, or none":
			list = true
		case strings.HasPrefix(line, "## "):
			list = false
		case !strings.HasPrefix(line, "|"):
			ours = false
		}
		if list && strings.HasPrefix(line, "- **") {
			cells = strings.SplitN(line, "**: ", 2)
		} else if !ours || strings.HasPrefix(line, "| ---") {
			continue
		}
		rows++
		tests := named.FindAllStringSubmatch(cells[1], -1)
		if len(tests) == 0 && cells[1] != "no" {
			t.Errorf("no test is named beside %q: %s", cells[0], cells[1])
		}
		for _, name := range tests {
			if !declares(t, filepath.Join("..", name[1]), name[2]) {
				t.Errorf("%q names %s.%s, which does not exist", cells[0], name[1], name[2])
			}
		}
	}
	require.Positive(t, rows)
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
