package docs_test

import (
	"os"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// The tables that scale.md quotes are still on the pages they are from, line by
// line.
func TestQuotedNumbersAreThoseMeasured(t *testing.T) {
	text, err := os.ReadFile("scale.md")
	require.NoError(t, err)
	quotes := regexp.MustCompile(`<!-- quoted: (\S+) -->\n((?:\|.*\n)+)`).FindAllStringSubmatch(string(text), -1)
	require.NotEmpty(t, quotes)
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

// What scale.md computes from the server's CPU time of a decision follows from
// the table in benchmarks.md.
func TestDecisionsOfACoreFollowFromTheTable(t *testing.T) {
	text, err := os.ReadFile("scale.md")
	require.NoError(t, err)
	said := regexp.MustCompile(`At ([\d.]+) µs a decision, a core that does nothing else makes about ([\d,]+) decisions`).FindStringSubmatch(string(text))
	require.NotNil(t, said)
	_, table, found := strings.Cut(string(read(t, "benchmarks.md")), "| 64 goroutines | script µs")
	require.True(t, found)
	row := strings.Split(table[strings.Index(table, "| ratelimit |"):], "|")
	require.Equal(t, said[1], strings.Fields(row[3])[0], "server CPU µs")
	micros, err := strconv.ParseFloat(said[1], 64)
	require.NoError(t, err)
	decisions, err := strconv.ParseFloat(strings.ReplaceAll(said[2], ",", ""), 64)
	require.NoError(t, err)
	require.InEpsilon(t, 1e6/micros, decisions, 0.01)
}
