package show_test

import (
	"fmt"
	"math/rand/v2"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/tokenbucket-go/ratelimit/cmd/ratelimit/internal/show"
)

// laidOut is a table for a screen of so many columns; 0: for a program.
func laidOut(t *testing.T, table *show.Table, columns int) string {
	t.Helper()
	var b strings.Builder
	require.NoError(t, table.Write(show.Screen{Writer: &b, Columns: columns}))
	return b.String()
}

func TestTable(t *testing.T) {
	var list show.Table
	list.Row("  ip:192.0.2.1", "denied: daily is used up")
	list.Row("  "+strings.Repeat("k", 30), "allowed")
	for columns, want := range map[int]string{
		0:  "  ip:192.0.2.1                    denied: daily is used up\n  kkkkkkkkkkkkkkkkkkkkkkkkkkkkkk  allowed\n",
		40: "  ip:192.0.2.1  denied: daily is used up\n  kkkkkkkkkkkkkkkkkkkkkkkkkkkkkk\n                allowed\n",
		38: "  ip:192.0.2.1\n      denied: daily is used up\n  kkkkkkkkkkkkkkkkkkkkkkkkkkkkkk\n                allowed\n",
	} {
		assert.Equal(t, want, laidOut(t, &list, columns), "%d columns", columns)
	}

	prose := show.Table{}
	prose.Row("fault", "definitions", "1 of 3 keys were last used under another definition")
	assert.Equal(t, "fault  definitions  1 of 3 keys were last\n                    used under another\n                    definition\n", laidOut(t, &prose, 45))

	split := show.Table{Right: true, Split: true}
	split.Row("hour", "requests", "denied by a", "denied by b")
	split.Row("01:00", "1,234", "12", "5")
	assert.Equal(t, "   hour  requests  denied by a  denied by b\n  01:00     1,234           12            5\n", laidOut(t, &split, 0))
	assert.Equal(t, "   hour  requests\n  01:00     1,234\n\n   hour  denied by a\n  01:00           12\n\n   hour  denied by b\n  01:00            5\n", laidOut(t, &split, 25))
}

// A table of which columns go below the others has each row on one line, as
// long as a column fits the screen.
func TestColumnsThatStandBelowFit(t *testing.T) {
	for columns := 40; columns <= 120; columns++ {
		for _, right := range []bool{false, true} {
			table := show.Table{Right: right, Split: true}
			for i := range 3 {
				row := []string{fmt.Sprintf("2026-03-02 %02d:00", i)}
				for n := range 4 {
					row = append(row, strings.Repeat("9", 8+n*3))
				}
				table.Row(row...)
			}
			for part := range strings.SplitSeq(laidOut(t, &table, columns), "\n\n") {
				for line := range strings.SplitSeq(strings.TrimSuffix(part, "\n"), "\n") {
					assert.LessOrEqual(t, len(line), columns)
					assert.Contains(t, line, "2026-03-02", "%d columns: a row is on one line", columns)
				}
			}
		}
	}
}

// Verdicts are in color on a terminal that has it, what is not known is not
// green, and the text is the same. Keys and prose have no color.
func TestVerdictsAreInColor(t *testing.T) {
	const text = `api ip:192.0.2.1: denied: minute is used up
  ip:192.0.2.2  allowed: 4 of 10 tokens left of daily
  ip:192.0.2.3  not known: the store does not answer
api user:x: allowed: never used, or not since it was full
      denied: daily is used up
fault  definitions  1 of 3 keys
ok     clock        denied: no
    60/min burst 91  still denied: 0 requests of 0 clients
denied          71 (5.3 %)
faulty keys, noted
`
	var plain, colored strings.Builder
	for _, screen := range []show.Screen{{Writer: &plain, Columns: 80}, {Writer: &colored, Columns: 80, Color: true}} {
		n, err := screen.Write([]byte(text))
		require.NoError(t, err)
		assert.Equal(t, len(text), n)
	}
	assert.Equal(t, text, plain.String())
	code := regexp.MustCompile(`\x1b\[(\d+)m([^\x1b]*)\x1b\[0m`)
	assert.Equal(t, text, code.ReplaceAllString(colored.String(), "$2"), "color alone is added")
	var got []string
	for _, m := range code.FindAllStringSubmatch(colored.String(), -1) {
		got = append(got, m[1]+" "+m[2])
	}
	assert.Equal(t, []string{"31 denied:", "32 allowed:", "2 not known:", "2 allowed: never used", "31 denied:", "31 fault", "31 denied:"}, got)

	for _, c := range []struct {
		noColor, term string
		want          bool
	}{{"", "xterm", true}, {"1", "xterm", false}, {"0", "xterm", false}, {"", "dumb", false}, {"", "", true}} {
		env := func(name string) string { return map[string]string{"NO_COLOR": c.noColor, "TERM": c.term}[name] }
		assert.Equal(t, c.want, show.HasColor(env), "NO_COLOR=%s TERM=%s", c.noColor, c.term)
	}
}

// No line is wider than the screen, but one that is a single cell, which must
// stay whole. Every word of every row is there, in order.
func TestTablesFit(t *testing.T) {
	words := func(n int) string {
		var list []string
		for range n {
			list = append(list, strings.Repeat("x", 1+rand.IntN(12)))
		}
		return strings.Join(list, " ")
	}
	for range 2000 {
		table := show.Table{Right: rand.IntN(4) == 0, Split: rand.IntN(3) == 0}
		var all []string
		for range 1 + rand.IntN(5) {
			row := []string{strings.Repeat(" ", 2*rand.IntN(3)) + strings.Repeat("k", 1+rand.IntN(130))}
			for range rand.IntN(5) {
				row = append(row, strings.Repeat("9", 1+rand.IntN(30)))
			}
			row = append(row, words(1+rand.IntN(20)))
			table.Row(row...)
			all = append(all, strings.Fields(strings.Join(row, " "))...)
		}
		text := laidOut(t, &table, 80)
		if !table.Split && !table.Right {
			require.Equal(t, all, strings.Fields(text), "nothing is lost")
			for line := range strings.Lines(text) {
				if len(strings.Fields(line)) > 1 {
					require.LessOrEqual(t, len(line)-1, 80, "%s", text)
				}
			}
		}
	}
}

func TestWrap(t *testing.T) {
	for _, c := range []struct {
		text       string
		most, hang int
		want       string
	}{
		{"a b c", 0, 2, "a b c"}, {"a b c", 5, 2, "a b c"}, {"a b c", 4, 2, "a b\n  c"}, {"  a b c", 4, 4, "  a\n    b\n    c"},
		{"longword b", 4, 1, "longword\n b"}, {"日本 日本", 8, 0, "日本\n日本"}, {"é́ b", 3, 0, "é́ b"}, {"", 3, 0, ""}, {"    ", 3, 1, "    "},
	} {
		assert.Equal(t, c.want, show.Wrap(c.text, c.most, c.hang), "%q", c.text)
	}
	var b strings.Builder
	w := show.Screen{Writer: &b, Columns: 20}
	require.NoError(t, show.About(w, "api user:John Smith the second", "denied: it is used up"))
	require.NoError(t, show.About(show.Like(&b, &b), "api key", "a text that is as long as it is"))
	assert.Equal(t, "api user:John Smith the second:\n  denied: it is used\n  up\napi key: a text that is as long as it is\n", b.String(), "a key stays whole")
}
