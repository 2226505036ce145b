package show

import (
	"fmt"
	"io"
	"strings"
	"unicode"
)

// Screen is a terminal: what is laid out for it has lines of at most so many
// columns. Other writers have lines of any length, so that programs find each
// row of a table on one.
type Screen struct {
	io.Writer

	Columns int
	Color   bool // verdicts are in color
}

// columns returns how many columns a writer has; 0: any number.
func columns(w io.Writer) int {
	if s, ok := w.(Screen); ok {
		return s.Columns
	}
	return 0
}

// Like returns a screen with the columns of another, which writes to w.
func Like(screen, w io.Writer) io.Writer { return Screen{Writer: w, Columns: columns(screen)} }

// Paragraph writes a line, for a screen as several: those after the first are
// indented by hang.
func Paragraph(w io.Writer, hang int, text string) error {
	_, err := fmt.Fprint(w, Wrap(text, columns(w), hang)+"\n")
	return err
}

// About writes what is said about a subject, such as a key, behind a colon: see
// [Line].
func About(w io.Writer, subject, says string) error { return Line(w, subject+":", says) }

// Line writes a subject, such as a key, and what is said about it, on one line:
// for a screen that is too narrow, below it. The subject stays whole.
func Line(w io.Writer, subject, says string) error {
	most := columns(w)
	if line := subject + " " + says; most == 0 || width(line) <= most {
		return Paragraph(w, 0, line)
	}
	_, err := fmt.Fprint(w, subject+"\n"+Wrap("  "+says, most, 2)+"\n")
	return err
}

// Wrap breaks a line at spaces, so that no part has more columns than most; 0:
// any number. A longer word stays whole. Parts after the first are indented by
// hang.
func Wrap(line string, most, hang int) string {
	if most <= 0 || width(line) <= most {
		return line
	}
	indent := line[:len(line)-len(strings.TrimLeft(line, " "))]
	var b strings.Builder
	at, empty := len(indent), true
	b.WriteString(indent)
	for word := range strings.SplitSeq(line[len(indent):], " ") {
		switch {
		case empty:
		case at+1+width(word) > most:
			b.WriteString("\n" + strings.Repeat(" ", hang))
			at = hang
		default:
			b.WriteByte(' ')
			at++
		}
		b.WriteString(word)
		at += width(word)
		empty = false
	}
	return b.String()
}

// wide are the characters that take two columns.
var wide = []*unicode.RangeTable{unicode.Han, unicode.Hangul, unicode.Hiragana, unicode.Katakana, {
	R16: []unicode.Range16{{0x3000, 0x303e, 1}, {0xff01, 0xff60, 1}, {0xffe0, 0xffe6, 1}},
	R32: []unicode.Range32{{0x1f300, 0x1f64f, 1}, {0x1f680, 0x1f6ff, 1}, {0x1f900, 0x1f9ff, 1}, {0x1fa70, 0x1faff, 1}},
}}

// width is how many columns of a terminal text takes.
func width(text string) (n int) {
	for _, r := range text {
		switch {
		case r < 0x300:
			n++
		case unicode.In(r, unicode.Mn, unicode.Me, unicode.Cf):
		case unicode.In(r, wide...):
			n += 2
		default:
			n++
		}
	}
	return n
}
