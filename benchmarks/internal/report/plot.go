package report

import (
	"fmt"
	"html"
	"math"
	"slices"
	"strings"
)

// Plot is a chart of lines over a logarithmic axis, such as decisions/s over goroutines.
type Plot struct {
	Title, XLabel, YLabel string
	X                     []float64 // ascending, above 0
	Lines                 []Line    // the first is drawn thick, above the others
}

// Line is one of them: its Y belong to the plot's X.
type Line struct {
	Name      string
	Y         []float64
	Low, High []float64 // ends of the error bars; nil for none
}

// The drawing area within the picture. The margin at the right is for the names of the lines.
const (
	width, height            = 860, 500
	left, right, top, bottom = 76, 210, 52, 58
	labelGap                 = 17 // between names, so that they don't overlap
)

// theme is how the plot looks on a light or a dark page: in the colors of the other pictures.
type theme struct{ ground, ink, grid, axis string }

var light, dark = theme{"#ffffff", "#19212d", "#dde3eb", "#546072"}, theme{"#10161e", "#e6ecf4", "#2b3643", "#9fadbf"}

// colors of lines: the first is that of the other pictures, the rest are near those of Okabe and Ito, which most people can tell
// apart. They are dark enough for names on a light ground, and light enough for a dark one.
var colors = [][2]string{
	{"#1d5fd0", "#7ab3ff"}, {"#c24e00", "#ff8c42"}, {"#a63d00", "#e0743a"}, {"#17744a", "#58c793"}, {"#8f5a00", "#e6a93c"}, {"#6b4300", "#b98524"},
	{"#b0498a", "#e58fc6"}, {"#546072", "#9fadbf"}, {"#6f6f00", "#d6d64a"},
}

// style has a class for each color, which follows the reader's theme.
func style() string {
	var b strings.Builder
	rules := func(i int, t theme) {
		fmt.Fprintf(&b, "svg{fill:%s}.ground{fill:%s;stroke:%s}.grid{stroke:%s}.axis{stroke:%s}", t.ink, t.ground, t.grid, t.grid, t.axis)
		for n, c := range colors {
			fmt.Fprintf(&b, ".s%d{stroke:%s}.f%d{fill:%s}", n, c[i], n, c[i])
		}
	}
	b.WriteString("<style>")
	rules(0, light)
	b.WriteString("@media (prefers-color-scheme: dark){")
	rules(1, dark)
	b.WriteString("}</style>\n")
	return b.String()
}

// SVG draws the plot on a ground of its own. Its colors follow the reader's theme.
func (p Plot) SVG() string {
	var b strings.Builder
	fmt.Fprintf(&b, `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 %d %d" width="%d" height="%d" role="img" aria-label="%s" font-family="system-ui, sans-serif" font-size="13">`+"\n",
		width, height, width, height, html.EscapeString(p.Title))
	b.WriteString(style())
	fmt.Fprintf(&b, `<rect class="ground" width="%d" height="%d" rx="8"/>`+"\n", width, height)
	text(&b, left, 30, `font-size="16" font-weight="600"`, p.Title)
	ceiling := p.grid(&b)
	for i := range slices.Backward(p.Lines) { // the first last, so above the others
		p.line(&b, i, ceiling)
	}
	p.names(&b, ceiling)
	b.WriteString("</svg>\n")
	return b.String()
}

// grid draws the axes and returns the highest value of the vertical one.
func (p Plot) grid(b *strings.Builder) float64 {
	largest := 0.0
	for _, l := range p.Lines {
		largest = max(largest, slices.Max(slices.Concat(l.Y, l.High)))
	}
	step := niceStep(largest / 5)
	ceiling := step * math.Ceil(largest/step)
	for v := 0.0; v <= ceiling+step/2; v += step {
		y := p.y(v, ceiling)
		fmt.Fprintf(b, `<line class="grid" x1="%d" x2="%d" y1="%.1f" y2="%.1f"/>`+"\n", left, width-right, y, y)
		text(b, left-8, y+4, `text-anchor="end"`, strings.Replace(Number(v), ".0", "", 1))
	}
	for _, x := range p.X {
		text(b, p.x(x), height-bottom+20, `text-anchor="middle"`, fmt.Sprint(x))
		fmt.Fprintf(b, `<line class="axis" x1="%.1f" x2="%.1f" y1="%d" y2="%d"/>`+"\n", p.x(x), p.x(x), height-bottom, height-bottom+5)
	}
	fmt.Fprintf(b, `<line class="axis" x1="%d" x2="%d" y1="%d" y2="%d"/>`+"\n", left, width-right, height-bottom, height-bottom)
	text(b, float64(left+width-right)/2, height-16, `text-anchor="middle"`, p.XLabel)
	text(b, 0, 0, fmt.Sprintf(`text-anchor="middle" transform="translate(20 %d) rotate(-90)"`, (top+height-bottom)/2), p.YLabel)
	return ceiling
}

func (p Plot) line(b *strings.Builder, i int, ceiling float64) {
	var points []string
	for j, y := range p.Lines[i].Y {
		points = append(points, fmt.Sprintf("%.1f,%.1f", p.x(p.X[j]), p.y(y, ceiling)))
	}
	thick := 2.0
	if i == 0 {
		thick = 4
	}
	n := i % len(colors)
	fmt.Fprintf(b, `<polyline class="s%d" points="%s" fill="none" stroke-width="%g" stroke-linejoin="round"/>`+"\n", n, strings.Join(points, " "), thick)
	for _, at := range points {
		x, y, _ := strings.Cut(at, ",")
		fmt.Fprintf(b, `<circle class="f%d" cx="%s" cy="%s" r="%g"/>`+"\n", n, x, y, thick+0.5)
	}
	p.errorBars(b, i, ceiling)
}

// errorBars draws those of a line, a little beside those of others at the same x.
func (p Plot) errorBars(b *strings.Builder, i int, ceiling float64) {
	l := p.Lines[i]
	for j := range l.Low {
		x := p.x(p.X[j]) + float64(i) - float64(len(p.Lines)-1)/2
		low, high := p.y(l.Low[j], ceiling), p.y(l.High[j], ceiling)
		fmt.Fprintf(b, `<path class="s%d" d="M%.1f %.1fh5m-2.5 0V%.1fm-2.5 0h5" fill="none"/>`+"\n", i%len(colors), x-2.5, low, high)
	}
}

// names writes each line's name where it ends, moved apart where they would overlap.
func (p Plot) names(b *strings.Builder, ceiling float64) {
	order := make([]int, len(p.Lines))
	ends := make([]float64, len(p.Lines))
	for i, l := range p.Lines {
		order[i] = i
		ends[i] = p.y(l.Y[len(l.Y)-1], ceiling)
	}
	slices.SortFunc(order, func(a, b int) int { return int(math.Copysign(1, ends[b]-ends[a])) }) // lowest first
	floor := float64(height - bottom)
	for _, i := range order {
		y := min(ends[i], floor)
		floor = y - labelGap
		n := i % len(colors)
		x := float64(width - right)
		fmt.Fprintf(b, `<line class="s%d" x1="%.1f" x2="%.1f" y1="%.1f" y2="%.1f" stroke-opacity="0.5"/>`+"\n", n, x+5, x+20, ends[i], y)
		weight := ""
		if i == 0 {
			weight = ` font-weight="700"`
		}
		text(b, x+24, y+4, fmt.Sprintf(`class="f%d"%s`, n, weight), p.Lines[i].Name)
	}
}

func text(b *strings.Builder, x, y float64, attributes, s string) {
	fmt.Fprintf(b, `<text x="%.1f" y="%.1f" %s>%s</text>`+"\n", x, y, attributes, html.EscapeString(s))
}

func (p Plot) x(v float64) float64 {
	first, last := math.Log(p.X[0]), math.Log(p.X[len(p.X)-1])
	return left + 12 + (math.Log(v)-first)/(last-first)*(width-right-left-16)
}

func (p Plot) y(v, ceiling float64) float64 {
	return height - bottom - v/ceiling*(height-bottom-top)
}

// niceStep is 1, 2 or 5 times a power of ten: the smallest of at least v.
func niceStep(v float64) float64 {
	power := math.Pow(10, math.Floor(math.Log10(v)))
	for _, n := range []float64{1, 2, 5} {
		if n*power >= v {
			return n * power
		}
	}
	return 10 * power
}
