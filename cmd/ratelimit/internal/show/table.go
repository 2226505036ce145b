package show

import (
	"fmt"
	"io"
	"strings"
)

// Table is rows of cells in columns. Columns are as wide as their widest cell,
// and two spaces apart; the first cell may begin with spaces, which indent its
// row.
//
// For a [Screen], a cell that is too long for its column stands at the end of
// its line, or on a line of its own, and the rest of the row below it. The last
// cell of a row is prose, broken at spaces. Other cells stay whole, so that
// they can be pasted.
type Table struct {
	Prose bool // the first cell too is broken at spaces: it is nothing to paste
	Right bool // cells end below each other
	Split bool // columns that a screen has no place for stand below the others, again after the first one

	rows [][]string
}

const (
	gap   = 2  // between columns
	below = 4  // indents what stands on a line of its own
	least = 24 // columns for prose: with fewer it stands on lines of its own
)

// Row adds a row.
func (t *Table) Row(cells ...string) { t.rows = append(t.rows, cells) }

// Write writes all rows.
func (t *Table) Write(w io.Writer) error {
	most := columns(w)
	var b strings.Builder
	for i, part := range t.parts(most) {
		if i > 0 {
			b.WriteByte('\n')
		}
		widths := part.widths(most)
		for _, row := range part.rows {
			part.line(&b, row, widths, most)
		}
	}
	_, err := fmt.Fprint(w, b.String())
	return err
}

// parts are the tables that t is split into.
func (t *Table) parts(most int) []*Table {
	widths := t.widths(0)
	total := 0
	for _, n := range widths {
		total += n + gap
	}
	before := 0 // the first column
	if t.Right {
		before = gap
	}
	if !t.Split || most == 0 || before+total-gap <= most || len(widths) < 3 {
		return []*Table{t}
	}
	var parts []*Table
	for from := 1; from < len(widths); {
		room, to := most-before-widths[0], from
		for ; to < len(widths) && (to == from || widths[to]+gap <= room); to++ {
			room -= widths[to] + gap
		}
		part := &Table{Right: t.Right}
		for _, row := range t.rows {
			if len(row) > from {
				part.Row(append([]string{row[0]}, row[from:min(to, len(row))]...)...)
			}
		}
		parts, from = append(parts, part), to
	}
	return parts
}

// widths returns how wide each column is. Of a screen, cells above half of it
// don't count, nor do those that end their rows.
func (t *Table) widths(most int) (list []int) {
	for _, row := range t.rows {
		for i, cell := range row {
			if i == len(list) {
				list = append(list, 0)
			}
			ends := i == len(row)-1 && !t.Right && !t.Split
			if n := width(cell); !ends && (most == 0 || n <= most/2) {
				list[i] = max(list[i], n)
			}
		}
	}
	return list
}

// longestWord is how many columns the longest word of a text takes.
func longestWord(text string) (n int) {
	for word := range strings.FieldsSeq(text) {
		n = max(n, width(word))
	}
	return n
}

// line writes a row.
func (t *Table) line(b *strings.Builder, row []string, widths []int, most int) {
	at, start := 0, 0 // at: where the line ends so far; start: where the cell's column begins
	indent := 0
	if len(row) > 0 {
		indent = len(row[0]) - len(strings.TrimLeft(row[0], " "))
	}
	next := func(column int) {
		if at > 0 {
			b.WriteByte('\n')
		}
		b.WriteString(strings.Repeat(" ", column))
		at = column
	}
	for i, cell := range row {
		n, last := width(cell), i == len(row)-1
		column := start
		if t.Right {
			column = start + gap + max(0, widths[i]-n)
		}
		switch {
		case i == 0 && !t.Right:
		case most > 0 && (column+n > most && !last || last && column+min(n, max(least, longestWord(cell))) > most): // no place in its column
			next(indent + below)
		case at > max(0, column-gap) && i > 0 && !t.Right: // the cell before is too long for its column
			next(max(column, indent+below))
		default:
			b.WriteString(strings.Repeat(" ", max(0, column-at)))
			at = max(at, column)
		}
		if t.Prose && i == 0 && most > 0 && n > most {
			cell, n = Wrap(cell, most, indent+below), most
		}
		if last && most > 0 && i > 0 {
			cell = strings.ReplaceAll(Wrap(cell, most-at, 0), "\n", "\n"+strings.Repeat(" ", at))
		}
		b.WriteString(cell)
		at += n
		start += widths[i] + gap
	}
	b.WriteByte('\n')
}
