package docs_test

import (
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// GitHub shows a README in a column of 830 pixels, where a line of code has room
// for 97 characters. Whoever opens it sees the line to write, and the demo,
// before anything else.
func TestReadmeFitsItsColumnOnGitHub(t *testing.T) {
	text := string(read(t, "../README.md"))
	blocks := anyFence.FindAllStringSubmatchIndex(text, -1)
	require.NotEmpty(t, blocks)
	for _, b := range blocks {
		for line := range strings.Lines(text[b[4]:b[5]]) {
			line = strings.ReplaceAll(strings.TrimSuffix(line, "\n"), "\t", "        ")
			assert.LessOrEqual(t, utf8.RuneCountInString(line), 95, "README.md scrolls sideways: %s", line)
		}
	}
	order := []int{strings.Index(text, "```go\nr.Use("), strings.Index(text, "github.io/ratelimit/)"), strings.Index(text, "<img"), strings.Index(text, "\n## ")}
	require.NotContains(t, order, -1)
	require.IsIncreasing(t, order, "the line to write, the demo, the picture, and then the rest")
}
