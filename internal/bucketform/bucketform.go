// Package bucketform is how a bucket looks in pictures and on pages: paths of
// SVG for its body, mouth, tokens and water. The demo's page draws the same in
// JavaScript.
package bucketform

import (
	"fmt"
	"math"
	"strings"
)

// The parts of a bucket. A token is a disc, and Columns of them stand side by
// side, a pitch apart. A bucket of more than Countable tokens has water instead,
// and is as high as one of so many.
const (
	Columns   = 5
	Countable = 20
	Disc      = 0.42 // a disc's radius, in pitches
	Beside    = 0.3  // between a side and the column next to it, in pitches
	Below     = 0.58 // from the floor to the middle of the lowest discs, in pitches
	Mouth     = 0.12 // half the height of the mouth, in half widths
	Corner    = 0.15 // the radius of a corner at the floor, in half widths
)

// Form is a bucket that stands on Floor around X.
type Form struct{ X, Floor, Pitch, Half, Rim float64 }

// Of returns the form of a bucket with a capacity.
func Of(x, floor, pitch float64, capacity int) Form {
	rows := max(1, (min(capacity, Countable)+Columns-1)/Columns)
	return Form{x, floor, pitch, (Columns/2.0 + Beside) * pitch, floor - (float64(rows)+Disc)*pitch}
}

// Body returns the path of the sides and the floor.
func (f Form) Body() string {
	r := f.Half * Corner
	left, right := f.X-f.Half, f.X+f.Half
	return path("M", left, f.Rim, "V", f.Floor-r, "Q", left, f.Floor, left+r, f.Floor, "H", right-r, "Q", right, f.Floor, right, f.Floor-r, "V", f.Rim)
}

// mouthY is half the height of the mouth.
func (f Form) mouthY() float64 { return f.Half * Mouth }

// Mouth returns the path of the mouth. It begins at its top and runs clockwise.
func (f Form) Mouth() string {
	y := f.mouthY()
	return path("M", f.X, f.Rim-y, "A", f.Half, y, 0, 1, 1, f.X-0.1, f.Rim-y, "Z")
}

// Water returns the path of the water of a bucket that has a share of its
// tokens left, with its surface; "" for none. In a corner it is as narrow as the
// bucket is there.
func (f Form) Water(share float64) string {
	high := (f.Floor - f.Rim) * min(1, max(0, share))
	if high == 0 {
		return ""
	}
	r := f.Half * Corner
	low := min(high, r)
	s := 1 - math.Sqrt(low/r) // how far into the curve of the corner
	half, begin, end := f.Half-r*s*s, f.Half-r*s, f.Half-r
	return path("M", f.X-half, f.Floor-high, "A", half, f.mouthY(), 0, 0, 1, f.X+half, f.Floor-high, "V", f.Floor-low,
		"Q", f.X+begin, f.Floor, f.X+end, f.Floor, "H", f.X-end, "Q", f.X-begin, f.Floor, f.X-half, f.Floor-low, "Z")
}

// Token returns where the middle of a token's disc is, counted from the left of
// the lowest row.
func (f Form) Token(i int) (x, y float64) {
	column, row := i%Columns, i/Columns
	return f.X + (float64(column)-(Columns-1)/2.0)*f.Pitch, f.Floor - f.Pitch*(Below+float64(row))
}

// path joins commands and numbers. A number has at most two decimals.
func path(parts ...any) string {
	var b strings.Builder
	for i, p := range parts {
		if command, ok := p.(string); ok {
			b.WriteString(command)
			continue
		}
		if _, after := parts[i-1].(string); !after {
			b.WriteByte(' ')
		}
		if v, ok := p.(float64); ok {
			p = math.Round(v*100) / 100
		}
		fmt.Fprint(&b, p)
	}
	return b.String()
}
