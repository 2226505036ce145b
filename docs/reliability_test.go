package docs_test

import (
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// Every test that reliability.md names exists.
func TestPromisesNameTestsThatExist(t *testing.T) {
	var tests strings.Builder
	require.NoError(t, filepath.WalkDir("..", func(path string, d fs.DirEntry, err error) error {
		if err == nil && strings.HasSuffix(path, "_test.go") {
			var source []byte
			source, err = os.ReadFile(path)
			tests.Write(source)
		}
		return err
	}))
	names := regexp.MustCompile(`\bTest[A-Z]\w+`).FindAllString(string(read(t, "reliability.md")), -1)
	require.NotEmpty(t, names)
	for _, name := range names {
		assert.Contains(t, tests.String(), "\nfunc "+name+"(", "reliability.md names a test that does not exist")
	}
}
