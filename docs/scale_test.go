package docs_test

import (
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// The tables that scale.md quotes are still on the pages they are from, line by line.
func TestQuotedNumbersAreThoseMeasured(t *testing.T) {
	text, err := os.ReadFile("scale.md")
	require.NoError(t, err)
	quotes := regexp.MustCompile(`<!-- quoted: (\S+) -->\n((?:\|.*\n)+)`).FindAllStringSubmatch(string(text), -1)
	require.Greater(t, len(quotes), 4)
	for _, q := range quotes {
		source, err := os.ReadFile(q[1])
		require.NoError(t, err)
		for _, line := range strings.SplitAfter(strings.TrimSuffix(q[2], "\n"), "\n") {
			if !strings.Contains(string(source), strings.TrimSuffix(line, "\n")+"\n") {
				t.Errorf("scale.md quotes a line that %s no longer has; copy it anew:\n%s", q[1], line)
			}
		}
	}
}
