package show

import (
	"strings"
	"testing"

	"github.com/jedib0t/go-pretty/v6/text"
	"github.com/stretchr/testify/assert"
)

var rows = [][]string{
	{"x-api-key:k-1234567890", "denied: daily is used up, next token in 2 h 14 min"},
	{"日本", "allowed"},
	{"ip:192.0.2.7"},
}

// A pipe gets each row on one line, so that grep finds all of it, and no spaces
// behind it.
func TestAPipeHasRowsAndParagraphsOnOneLine(t *testing.T) {
	w := new(Writer)
	w.Table(2, []string{"key", "says"}, rows)
	w.Line("  %s", strings.Repeat("word ", 50)+"end")
	w.Table(2, []string{"none"}, nil)
	assert.Equal(t, `  key                     says
  x-api-key:k-1234567890  denied: daily is used up, next token in 2 h 14 min
  日本                    allowed
  ip:192.0.2.7
  `+strings.Repeat("word ", 50)+"end\n", w.String())
}

// A terminal gets lines of its width. Keys stay whole, so that they can be
// pasted.
func TestATerminalHasLinesOfItsWidth(t *testing.T) {
	w := &Writer{columns: 60}
	w.Table(2, nil, rows)
	w.Line("  %s", strings.Repeat("word ", 30)+"end")
	for line := range strings.Lines(w.String()) {
		assert.LessOrEqual(t, text.StringWidth(strings.TrimSuffix(line, "\n")), 60, line)
		assert.NotRegexp(t, ` \n$`, line)
	}
	assert.Contains(t, w.String(), "  x-api-key:k-1234567890  denied: daily is used up, next\n                          token in 2 h 14 min\n")
	assert.Contains(t, w.String(), "\n    word")
	narrow := &Writer{columns: 10}
	narrow.Table(0, nil, rows)
	assert.Contains(t, narrow.String(), "x-api-key:k-1234567890  denied")
	narrow.Line("word")
}
