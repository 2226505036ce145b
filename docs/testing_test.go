package docs_test

import (
	"os/exec"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// The tests that adapters.md shows pass.
func TestTestsOfTheTestingPagePass(t *testing.T) {
	b, err := shown()
	require.NoError(t, err)
	require.Positive(t, b.testFunctions, "the page shows tests")
	tests := exec.Command(b.tests, "-test.v", "-test.timeout=5m")
	tests.Dir = t.TempDir()
	out, err := tests.CombinedOutput()
	require.NoError(t, err, "%s", out)
	require.Equal(t, b.testFunctions, strings.Count(string(out), "\n--- PASS"), "every test on the page runs:\n%s", out)
}
