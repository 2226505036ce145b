package docs_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"testing"

	"github.com/stretchr/testify/require"
)

// The program on reliability.md prints what the page shows.
func TestTheProgramWithoutRedisPrintsWhatThePageShows(t *testing.T) {
	text, err := os.ReadFile("reliability.md")
	require.NoError(t, err)
	want := regexp.MustCompile("(?ms)^It prints:\n\n```text\n(.*?)^```").FindStringSubmatch(string(text))
	require.NotNil(t, want)
	dir, err := os.MkdirTemp(".", "_shown") // within the module, and no package of ./...
	require.NoError(t, err)
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	program := fence.FindStringSubmatch(string(text))[1]
	require.NoError(t, os.WriteFile(filepath.Join(dir, "main.go"), []byte(program), 0o600))
	out, err := exec.Command("go", "run", "./"+dir).Output()
	require.NoError(t, err)
	require.Equal(t, want[1], string(out))
}
