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
	Name string
	Y    []float64
}

// The drawing area within the picture. The margin at the right is for the names of the lines.
const (
	width, height            = 860, 500
	left, right, top, bottom = 76, 178, 52, 58
	labelGap                 = 17 // between names, so that they don't overlap
)

// colors are Okabe and Ito's, which most people can tell apart, dark enough for a white ground.
var colors = []string{"#0072b2", "#d55e00", "#009e73", "#8f5a00", "#b0498a", "#4d4d4d", "#7a7a00", "#3a86a8"}

// SVG draws the plot on a ground of its own, so that it can be read on dark pages too.
func (p Plot) SVG() string {
	var b strings.Builder
	fmt.Fprintf(&b, `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 %d %d" width="%d" height="%d" role="img" aria-label="%s" font-family="system-ui, sans-serif" font-size="13" fill="#222">`+"\n",
		width, height, width, height, html.EscapeString(p.Title))
	fmt.Fprintf(&b, `<rect width="%d" height="%d" rx="8" fill="#fff" stroke="#ccc"/>`+"\n", width, height)
	text(&b, left, 30, `font-size="16" font-weight="600"`, p.Title)
	ceiling := p.grid(&b)
	for i := len(p.Lines) - 1; i >= 0; i-- { // the first last, so above the others
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
		largest = max(largest, slices.Max(l.Y))
	}
	step := niceStep(largest / 5)
	ceiling := step * math.Ceil(largest/step)
	for v := 0.0; v <= ceiling+step/2; v += step {
		y := p.y(v, ceiling)
		fmt.Fprintf(b, `<line x1="%d" x2="%d" y1="%.1f" y2="%.1f" stroke="#e2e2e2"/>`+"\n", left, width-right, y, y)
		text(b, left-8, y+4, `text-anchor="end"`, strings.Replace(Number(v), ".0", "", 1))
	}
	for _, x := range p.X {
		text(b, p.x(x), height-bottom+20, `text-anchor="middle"`, fmt.Sprint(x))
		fmt.Fprintf(b, `<line x1="%.1f" x2="%.1f" y1="%d" y2="%d" stroke="#888"/>`+"\n", p.x(x), p.x(x), height-bottom, height-bottom+5)
	}
	fmt.Fprintf(b, `<line x1="%d" x2="%d" y1="%d" y2="%d" stroke="#888"/>`+"\n", left, width-right, height-bottom, height-bottom)
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
	color := colors[i%len(colors)]
	fmt.Fprintf(b, `<polyline points="%s" fill="none" stroke="%s" stroke-width="%g" stroke-linejoin="round"/>`+"\n", strings.Join(points, " "), color, thick)
	for _, at := range points {
		x, y, _ := strings.Cut(at, ",")
		fmt.Fprintf(b, `<circle cx="%s" cy="%s" r="%g" fill="%s"/>`+"\n", x, y, thick+0.5, color)
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
		color := colors[i%len(colors)]
		x := float64(width - right)
		fmt.Fprintf(b, `<line x1="%.1f" x2="%.1f" y1="%.1f" y2="%.1f" stroke="%s" stroke-opacity="0.5"/>`+"\n", x+5, x+20, ends[i], y, color)
		weight := ""
		if i == 0 {
			weight = ` font-weight="700"`
		}
		text(b, x+24, y+4, fmt.Sprintf(`fill="%s"%s`, color, weight), p.Lines[i].Name)
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
