package pictures

import (
	"maps"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// Where the pages are.
const (
	demoStyle   = "../../examples/demo/page/page.css"
	adminStyle  = "../../adminlimit/page.css"
	replayStyle = "../../cmd/ratelimit/internal/report/page.html.tmpl"
	benchmarks  = "../../docs/benchmarks.svg"
)

// themed is a color in the light and the dark theme.
type themed [2]string

var variable = regexp.MustCompile(`--([\w-]+): (#[0-9a-f]{6})\b`)

// variables returns the colors of a page that has its dark ones in a media
// query of their own.
func variables(t *testing.T, path string) map[string]themed {
	t.Helper()
	text, err := os.ReadFile(path)
	require.NoError(t, err)
	light, dark, found := strings.Cut(string(text), "prefers-color-scheme: dark")
	require.True(t, found)
	list := make(map[string]themed)
	for _, m := range variable.FindAllStringSubmatch(light, -1) {
		list[m[1]] = themed{m[2]}
	}
	for _, m := range variable.FindAllStringSubmatch(dark, -1) {
		list[m[1]] = themed{list[m[1]][0], m[2]}
	}
	require.NotEmpty(t, list)
	return list
}

// palette returns the colors of the demo's page and of the pictures.
func palette(t *testing.T) (list []themed) {
	t.Helper()
	text, err := os.ReadFile(demoStyle)
	require.NoError(t, err)
	for _, m := range regexp.MustCompile(`light-dark\((#\w{6}), (#\w{6})\)`).FindAllStringSubmatch(string(text), -1) {
		list = append(list, themed{m[1], m[2]})
	}
	require.NotEmpty(t, list, "the premise: this is how the demo writes colors")
	for _, c := range slices.Concat([]color{paper, edge}, inks, washes) {
		list = append(list, themed{c.light, c.dark})
	}
	return list
}

// Pages are one family: each color of the page for the one on call, of the
// replay and of the benchmarks is one of the demo's or of the pictures.
func TestPagesShareColors(t *testing.T) {
	known := palette(t)
	for _, path := range []string{adminStyle, replayStyle} {
		for name, c := range variables(t, path) {
			assert.Contains(t, known, c, "--%s of %s", name, path)
		}
	}
	rules := benchmarkRules(t)
	for _, rule := range []string{"svg", ".ground", ".grid", ".axis", ".s0"} {
		assert.Contains(t, known, rules[rule], "%s of %s", rule, benchmarks)
	}
}

// benchmarkRules returns the first color of each rule of the benchmarks'
// picture.
func benchmarkRules(t *testing.T) map[string]themed {
	t.Helper()
	text, err := os.ReadFile(benchmarks)
	require.NoError(t, err)
	style, _, _ := strings.Cut(string(text), "</style>")
	light, dark, found := strings.Cut(style, "prefers-color-scheme: dark")
	require.True(t, found)
	list := make(map[string]themed)
	for i, part := range []string{light, dark} {
		for _, m := range regexp.MustCompile(`([\w.]+)\{(?:fill|stroke):(#\w+)`).FindAllStringSubmatch(part, -1) {
			c := list[m[1]]
			c[i] = m[2]
			list[m[1]] = c
		}
	}
	return list
}

// Text has a contrast of 4.5 to 1 on what it stands on, and outlines one of 3
// to 1: WCAG 2.2, 1.4.3 and 1.4.11.
func TestPagesHaveContrast(t *testing.T) {
	check := func(where string, ink, ground themed, least float64) {
		for i, theme := range []string{"light", "dark"} {
			require.Len(t, ink[i], 7, "%s: a color in the %s theme", where, theme)
			got := contrast(t, ink[i], ground[i])
			assert.GreaterOrEqual(t, got, least, "%s: %s on %s in the %s theme", where, ink[i], ground[i], theme)
		}
	}
	for path, of := range map[string]struct{ grounds, texts, outlines []string }{
		adminStyle:  {[]string{"bg", "raised"}, []string{"fg", "dim", "go", "bad", "good"}, []string{"edge"}},
		replayStyle: {[]string{"paper", "sunk"}, []string{"text", "soft", "accent", "denied"}, nil},
	} {
		colors := variables(t, path)
		for _, ground := range of.grounds {
			for _, text := range of.texts {
				check(path+" "+text, colors[text], colors[ground], 4.5)
			}
			for _, line := range of.outlines {
				check(path+" "+line, colors[line], colors[ground], 3)
			}
		}
	}
	admin := variables(t, adminStyle)
	check("the page's main button", admin["on-go"], admin["go"], 4.5)
	rules := benchmarkRules(t)
	names := 0
	for rule := range maps.Keys(rules) {
		if strings.HasPrefix(rule, ".f") {
			names++
			check(benchmarks+" "+rule, rules[rule], rules[".ground"], 4.5)
		}
	}
	assert.Positive(t, names, "the premise: this is how the picture colors names")
	check(benchmarks, rules["svg"], rules[".ground"], 4.5)
}
