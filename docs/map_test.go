package docs_test

import (
	"os"
	"path/filepath"
	"regexp"
	"testing"

	"github.com/stretchr/testify/require"
)

// The map of CONTRIBUTING.md names files that exist.
func TestTheMapIsTrue(t *testing.T) {
	text, err := os.ReadFile("../CONTRIBUTING.md")
	require.NoError(t, err)
	named := regexp.MustCompile("`([a-z]+/[\\w/.]*)`").FindAllStringSubmatch(string(text), -1)
	require.Greater(t, len(named), 30)
	for _, name := range named {
		if _, err := os.Stat(filepath.Join("..", name[1])); err != nil {
			t.Errorf("CONTRIBUTING.md names %s, which does not exist", name[1])
		}
	}
}

// The way of a request is at most twelve files, none of them twice.
func TestTheWayOfARequestIsTrue(t *testing.T) {
	text, err := os.ReadFile("how-it-works.md")
	require.NoError(t, err)
	seen := make(map[string]bool)
	for _, row := range regexp.MustCompile("(?m)^\\| `([a-z]+/[\\w/.]*)` \\|").FindAllStringSubmatch(string(text), -1) {
		require.False(t, seen[row[1]], "%s is visited twice", row[1])
		seen[row[1]] = true
		require.FileExists(t, filepath.Join("..", row[1]))
	}
	require.NotEmpty(t, seen)
	require.LessOrEqual(t, len(seen), 12)
}
