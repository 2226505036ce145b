// Package show writes numbers, times, keys and tables as people read them.
package show

import (
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/jedib0t/go-pretty/v6/table"
	"github.com/jedib0t/go-pretty/v6/text"
	"golang.org/x/term"
)

// Writer collects text for people to read. For a terminal, lines are broken at
// its width. Otherwise a paragraph and a row of a table are one line each, so
// that programs such as grep find all of it.
type Writer struct {
	strings.Builder

	columns int // of the terminal; 0: lines have any length
}

// For returns a Writer whose text is for out.
func For(out io.Writer) *Writer {
	if f, ok := out.(*os.File); ok {
		if columns, _, err := term.GetSize(int(f.Fd())); err == nil {
			return &Writer{columns: columns}
		}
	}
	return new(Writer)
}

// Line writes a paragraph. Its first line keeps the spaces that it begins with,
// and further lines are indented by two more.
func (w *Writer) Line(format string, args ...any) {
	line := fmt.Sprintf(format, args...)
	if w.columns > 0 && text.StringWidth(line) > w.columns {
		indent := line[:len(line)-len(strings.TrimLeft(line, " "))]
		rest := strings.ReplaceAll(wrap(line[len(indent):], w.columns-len(indent)-2), "\n", "\n"+indent+"  ")
		line = indent + rest
	}
	w.WriteString(line + "\n")
}

// Table writes rows in columns, indented by so many spaces. The header may be
// nil. For a terminal the last column is broken at spaces; others stay whole, so
// that keys can be pasted.
func (w *Writer) Table(indent int, header []string, rows [][]string) {
	if len(rows) == 0 {
		return
	}
	t := table.NewWriter()
	style := table.StyleDefault
	style.Options = table.OptionsNoBordersAndSeparators
	style.Box.PaddingLeft, style.Box.PaddingRight = "", "  "
	style.Format.Header = text.FormatDefault
	t.SetStyle(style)
	t.SuppressTrailingSpaces()
	if header != nil {
		t.AppendHeader(cells(header))
		rows = append([][]string{header}, rows...)
	}
	before, last := 0, 0 // the width of all columns before the last one, and its number
	for _, row := range rows {
		last = max(last, len(row))
	}
	for column := range last - 1 {
		widest := 0
		for _, row := range rows {
			if column < len(row) {
				widest = max(widest, text.StringWidth(row[column]))
			}
		}
		before += widest + 2
	}
	if room := w.columns - indent - before; w.columns > 0 {
		t.SetColumnConfigs([]table.ColumnConfig{{Number: last, WidthMax: max(room, 24), WidthMaxEnforcer: wrap}})
	}
	if header != nil {
		rows = rows[1:]
	}
	for _, row := range rows {
		t.AppendRow(cells(row))
	}
	for line := range strings.SplitSeq(t.Render(), "\n") {
		w.WriteString(strings.Repeat(" ", indent) + line + "\n")
	}
}

func cells(row []string) table.Row {
	list := make(table.Row, len(row))
	for i, cell := range row {
		list[i] = cell
	}
	return list
}

// wrap breaks a line at spaces, and words that are longer than a line.
func wrap(line string, columns int) string {
	lines := strings.Split(text.WrapSoft(line, max(columns, 1)), "\n")
	for i := range lines {
		lines[i] = strings.TrimRight(lines[i], " ")
	}
	return strings.Join(lines, "\n")
}
