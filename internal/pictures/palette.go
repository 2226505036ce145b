package pictures

import (
	"fmt"
	"slices"
	"strings"
)

// color is one of the demo's page, in the reader's light and dark theme.
type color struct{ name, light, dark string }

// paper is the ground of every picture.
var paper = color{"paper", "#ffffff", "#10161e"}

// inks are readable on paper and on washes: their contrast is at least 4.5 to
// 1.
var inks = []color{
	{"text", "#19212d", "#e6ecf4"},
	{"soft", "#546072", "#9fadbf"},
	{"accent", "#1d5fd0", "#7ab3ff"},
	{"allowed", "#17744a", "#58c793"},
	{"denied", "#b8322a", "#ff8d84"},
}

// washes are grounds for text and areas.
var washes = []color{
	{"tint", "#e8f0fd", "#1a2a41"},
	{"sunk", "#f4f6f9", "#18202b"},
	{"alarm", "#fcebe9", "#3a1f22"},
}

// grid is for thin lines that carry no meaning of their own, and edge for
// outlines.
var (
	grid = color{"grid", "#dde3eb", "#2b3643"}
	edge = color{"edge", "#7d8a9c", "#6b7a8d"}
)

// style is the style sheet of every picture. Text is larger where the picture
// is narrow, so that it can be read on a phone.
func style() string {
	var light, dark strings.Builder
	for _, c := range slices.Concat([]color{paper, grid, edge}, inks, washes) {
		fmt.Fprintf(&light, ".%s{fill:%s}.%s-line{fill:none;stroke:%s}", c.name, c.light, c.name, c.light)
		fmt.Fprintf(&dark, ".%s{fill:%s}.%s-line{stroke:%s}", c.name, c.dark, c.name, c.dark)
	}
	return "text{font:20px system-ui,sans-serif}.bold{font-weight:600}" +
		".end{text-anchor:end}.middle{text-anchor:middle}" + light.String() +
		"@media(min-width:600px){text{font-size:16px}}@media(prefers-color-scheme:dark){" + dark.String() + "}"
}
