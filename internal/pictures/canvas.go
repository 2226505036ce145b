package pictures

import (
	"encoding/xml"
	"fmt"
	"strconv"
	"strings"
)

// width is that of every picture, and margin what stays free at its sides.
const (
	width  = 720.0
	margin = 36.0
)

// canvas is a picture that is being drawn. Classes are those of style.
type canvas struct {
	title, description string // for screen readers
	height             float64

	body   strings.Builder
	motion strings.Builder // rules of the style sheet for what moves
}

// newCanvas returns a canvas whose title stands at its top.
func newCanvas(height float64, title string) *canvas {
	c := &canvas{title: title, height: height}
	c.text(margin, 46, "text bold", title)
	return c
}

// describe says what the picture shows, for screen readers. Numbers in it are
// of the decisions.
func (c *canvas) describe(format string, numbers ...any) {
	c.description = fmt.Sprintf(format, numbers...)
}

// String returns the picture as SVG.
func (c *canvas) String() string {
	size := fmt.Sprintf(`width="%s" height="%s"`, number(width), number(c.height))
	return fmt.Sprintf(`<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 %s %s" %s role="img" aria-labelledby="title desc">`+"\n",
		number(width), number(c.height), size) +
		"<!-- Written by go generate ./internal/pictures: do not edit. -->\n" +
		fmt.Sprintf("<title id=\"title\">%s</title>\n<desc id=\"desc\">%s</desc>\n<style>%s</style>\n", escaped(c.title), escaped(c.description), style()+c.motionRules()) +
		fmt.Sprintf(`<rect x="0.5" y="0.5" width="%s" height="%s" rx="14" class="paper"/>`+"\n", number(width-1), number(c.height-1)) +
		fmt.Sprintf(`<rect x="0.5" y="0.5" width="%s" height="%s" rx="14" class="grid-line"/>`+"\n", number(width-1), number(c.height-1)) +
		c.body.String() + "</svg>\n"
}

// text writes s with its baseline at y.
func (c *canvas) text(x, y float64, class, s string) {
	fmt.Fprintf(&c.body, `<text x="%s" y="%s" class="%s">%s</text>`+"\n", number(x), number(y), class, escaped(s))
}

func (c *canvas) rect(x, y, w, h, radius float64, class string) {
	fmt.Fprintf(&c.body, `<rect x="%s" y="%s" width="%s" height="%s" rx="%s" class="%s"/>`+"\n",
		number(x), number(y), number(w), number(h), number(radius), class)
}

func (c *canvas) circle(x, y, radius float64, class string) {
	fmt.Fprintf(&c.body, `<circle cx="%s" cy="%s" r="%s" class="%s"/>`+"\n", number(x), number(y), number(radius), class)
}

// line draws a line of several points. Dashes is its stroke-dasharray; "" for a
// solid line.
func (c *canvas) line(points []point, thick float64, class, dashes string) {
	if dashes != "" {
		dashes = ` stroke-dasharray="` + dashes + `"`
	}
	fmt.Fprintf(&c.body, `<path d="%s" stroke-width="%s" stroke-linejoin="round"%s class="%s"/>`+"\n", path(points), number(thick), dashes, class)
}

// curve draws a line, and the area below it down to floor.
func (c *canvas) curve(points []point, floor float64) {
	c.area(points, floor, "tint")
	c.line([]point{{points[0].x, floor}, {points[len(points)-1].x, floor}}, 1, "grid-line", "")
	c.line(points, 3, "accent-line", "")
}

// scaleY draws a horizontal line for each number.
func (c *canvas) scaleY(from, to float64, y func(float64) float64, numbers ...float64) {
	for _, v := range numbers {
		c.line([]point{{from, y(v)}, {to, y(v)}}, 1, "grid-line", "")
		c.text(from-12, y(v)+6, "soft end", thousands(int64(v)))
	}
}

// area fills what is between a line and the height of bottom.
func (c *canvas) area(points []point, bottom float64, class string) {
	closed := append([]point{{points[0].x, bottom}}, points...)
	closed = append(closed, point{points[len(points)-1].x, bottom})
	fmt.Fprintf(&c.body, `<path d="%sZ" class="%s"/>`+"\n", path(closed), class)
}

// arrow draws a line with a head at its end. It runs along one of the axes.
func (c *canvas) arrow(from, to point, class string) {
	const head = 7
	dx, dy := sign(to.x-from.x)*head, sign(to.y-from.y)*head
	c.line([]point{from, {to.x - dx, to.y - dy}}, 2, class+"-line", "")
	c.body.WriteString(`<path d="` + path([]point{to, {to.x - 1.4*dx - 0.8*dy, to.y - 1.4*dy - 0.8*dx}, {to.x - 1.4*dx + 0.8*dy, to.y - 1.4*dy + 0.8*dx}}) +
		`Z" class="` + class + "\"/>\n")
}

// mark draws one request: a dot if it was allowed, and a cross if not.
func (c *canvas) mark(x, y float64, allowed bool) {
	if allowed {
		c.circle(x, y, 5, "allowed")
		return
	}
	c.line([]point{{x - 4, y - 4}, {x + 4, y + 4}}, 2, "denied-line", "")
	c.line([]point{{x - 4, y + 4}, {x + 4, y - 4}}, 2, "denied-line", "")
}

// count draws the mark of n requests, and before it n itself if they are
// several.
func (c *canvas) count(x, y float64, n int, allowed bool) {
	if n == 0 {
		return
	}
	c.mark(x, y, allowed)
	if n > 1 {
		c.text(x-12, y+6, "text end", strconv.Itoa(n))
	}
}

// ticks draws a stroke at each x.
func (c *canvas) ticks(xs []float64, y float64) {
	for _, x := range xs {
		c.line([]point{{x, y}, {x, y + 20}}, 2, "accent-line", "")
	}
}

// heading is the name of a row, and something about it.
func (c *canvas) heading(y float64, name, about string, indent float64) {
	c.text(margin, y, "text bold", name)
	c.text(margin+indent, y, "soft", about)
}

// key explains the marks, from x on.
func (c *canvas) key(x, y float64) {
	c.mark(x+5, y-6, true)
	c.text(x+20, y, "soft", "allowed")
	c.mark(x+125, y-6, false)
	c.text(x+140, y, "soft", "denied")
}

// point is a place on a canvas.
type point struct{ x, y float64 }

// path is a line of points, without those that lie between their neighbours.
func path(points []point) string {
	var kept []point
	for i, p := range points {
		if i > 0 && i < len(points)-1 && between(kept[len(kept)-1], p, points[i+1]) {
			continue
		}
		kept = append(kept, p)
	}
	var d strings.Builder
	for i, p := range kept {
		command := "L"
		if i == 0 {
			command = "M"
		}
		d.WriteString(command + number(p.x) + " " + number(p.y))
	}
	return d.String()
}

// between reports whether b lies on the way from a to c, as far as can be seen.
func between(a, b, c point) bool {
	cross := (b.x-a.x)*(c.y-a.y) - (b.y-a.y)*(c.x-a.x)
	ahead := (b.x-a.x)*(c.x-b.x) + (b.y-a.y)*(c.y-b.y)
	return cross < 0.01 && cross > -0.01 && ahead >= 0
}

// scale maps v from the range that begins with 0 and ends with to, to the one
// from low to high.
func scale(v, to, low, high float64) float64 { return low + v/to*(high-low) }

func sign(v float64) float64 {
	switch {
	case v > 0:
		return 1
	case v < 0:
		return -1
	default:
		return 0
	}
}

// number is v with at most one decimal.
func number(v float64) string {
	return strings.TrimSuffix(strconv.FormatFloat(v, 'f', 1, 64), ".0")
}

// thousands is n with its digits in groups of three.
func thousands(n int64) string {
	if n < 1000 {
		return strconv.FormatInt(n, 10)
	}
	return fmt.Sprintf("%s,%03d", thousands(n/1000), n%1000)
}

func escaped(s string) string {
	var b strings.Builder
	_ = xml.EscapeText(&b, []byte(s)) // a strings.Builder returns no error
	return b.String()
}
