package docs_test

import (
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
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

// Packages are small: one that has more files needs a better cut.
func TestPackagesHaveFewFiles(t *testing.T) {
	files := make(map[string]int)
	require.NoError(t, filepath.WalkDir("..", func(path string, entry fs.DirEntry, err error) error {
		if err == nil && strings.HasSuffix(path, ".go") && !strings.HasSuffix(path, "_test.go") && !strings.Contains(path, "testdata") {
			files[filepath.Dir(path)]++
		}
		return err
	}))
	require.NotZero(t, files["../core"])
	for dir, n := range files {
		most := 15
		switch dir {
		case "../core":
			most = 39
		case "../core/redisstore":
			most = 18
		case "../core/storetest": // a file for each group of rules
			most = 16
		case "../core/adapter/adaptertest": // a file for each group of rules
			most = 21
		case "../benchmarks/migration": // a program before and one after for each library
			most = 20
		}
		require.LessOrEqual(t, n, most, dir)
	}
}

// What a newcomer reads first is short.
func TestTheFirstPagesAreShort(t *testing.T) {
	readme, err := os.ReadFile("../README.md")
	require.NoError(t, err)
	require.LessOrEqual(t, strings.Count(string(readme), "\n"), 150, "README.md")
	overview, err := exec.Command("go", "doc", "../core").Output()
	require.NoError(t, err)
	require.Greater(t, strings.Count(string(overview), "\n"), 50)
	require.LessOrEqual(t, strings.Count(string(overview), "\n"), 120, "go doc of core")
}
