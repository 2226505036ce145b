package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// Replay and check print what docs/tools.md shows. Their commands run in one
// directory, with the files that the page shows behind their names.
func TestReplayAndCheckPrintWhatThePageShows(t *testing.T) {
	page, err := os.ReadFile("../../docs/tools.md")
	require.NoError(t, err)
	dir := t.TempDir()
	build := exec.Command("go", "build", "-o", filepath.Join(dir, "ratelimit"), ".")
	out, err := build.CombinedOutput()
	require.NoError(t, err, string(out))

	for _, file := range regexp.MustCompile("(?s)`([\\w.]+)`:\n\n```yaml\n(.*?)```").FindAllStringSubmatch(string(page), -1) {
		require.NoError(t, os.WriteFile(filepath.Join(dir, file[1]), []byte(file[2]), 0o600))
	}
	compared := 0
	for _, block := range regexp.MustCompile("(?s)```sh\n([^`]*)```\n\n```text\n([^`]*)```").FindAllStringSubmatch(string(page), -1) {
		if !strings.Contains(block[1], "ratelimit replay") && !strings.Contains(block[1], "ratelimit check") {
			continue
		}
		shell := exec.Command("sh", "-c", block[1])
		shell.Dir, shell.Env = dir, append(os.Environ(), "PATH="+dir+string(os.PathListSeparator)+os.Getenv("PATH"))
		shell.Stderr = t.Output()
		out, _ := shell.Output() // check ends with 1 after a mistake
		assert.Equal(t, block[2], string(out), block[1])
		compared++
	}
	assert.Equal(t, 3, compared, "the premise: the page has these blocks")
}
