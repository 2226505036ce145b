package docs_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// The tests that testing.md shows pass.
func TestTestsOfTheTestingPagePass(t *testing.T) {
	text, err := os.ReadFile("testing.md")
	require.NoError(t, err)
	dir, err := os.MkdirTemp(".", "_shown") // within the module, and no package of ./...
	require.NoError(t, err)
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	args := []string{"test", "-count=1"}
	for i, block := range fence.FindAllStringSubmatch(string(text), -1) {
		if !strings.Contains(block[1], "*testing.T") {
			continue
		}
		shown := filepath.Join(dir, strconv.Itoa(i))
		require.NoError(t, os.Mkdir(shown, 0o700))
		require.NoError(t, os.WriteFile(filepath.Join(shown, "shown_test.go"), []byte(block[1]), 0o600))
		args = append(args, "./"+shown)
	}
	require.Len(t, args, 2+4, "the page shows tests")
	out, err := exec.Command("go", args...).CombinedOutput()
	require.NoError(t, err, "%s", out)
}
