package pictures

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/tokenbucket-go/ratelimit/internal/bucketform"
)

// Where the pages are.
const (
	demoPage    = "../../examples/demo/page/"
	demoStyle   = demoPage + "page.css"
	adminStyle  = "../../adminlimit/page.css"
	replayStyle = "../../cmd/ratelimit/internal/report/page.html.tmpl"
	reportStyle = "../../cmd/ratelimit/internal/report/report.css"
)

// themed is a color in the light and the dark theme.
type themed [2]string

var variable = regexp.MustCompile(`--([\w-]+): (#[0-9a-f]{6})\b`)

// variables returns the colors of a page that has its dark ones in a media
// query of their own.
func variables(t *testing.T, path string) map[string]themed {
	t.Helper()
	light, dark, found := strings.Cut(read(t, path), "prefers-color-scheme: dark")
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

// palette returns the colors of the demo's page, which are everyone's.
func palette(t *testing.T) map[string]themed {
	t.Helper()
	list := make(map[string]themed)
	for _, m := range regexp.MustCompile(`--([\w-]+): light-dark\((#\w{6}), (#\w{6})\)`).FindAllStringSubmatch(read(t, demoStyle), -1) {
		list[m[1]] = themed{m[2], m[3]}
	}
	require.NotEmpty(t, list, "the premise: this is how the demo writes colors")
	return list
}

func read(t *testing.T, path string) string {
	t.Helper()
	text, err := os.ReadFile(path)
	require.NoError(t, err)
	return string(text)
}

// Pages are one family: each color of the pictures, of the page for the one on
// call and of the replay is one of the demo's.
func TestPagesShareColors(t *testing.T) {
	known := slices.Collect(maps.Values(palette(t)))
	for _, c := range slices.Concat([]color{paper, grid, edge}, inks, washes) {
		assert.Contains(t, known, themed{c.light, c.dark}, "%s of the pictures", c.name)
	}
	for _, path := range []string{adminStyle, replayStyle} {
		for name, c := range variables(t, path) {
			assert.Contains(t, known, c, "--%s of %s", name, path)
		}
	}
}

// Text has one of few sizes, in pixels, wherever it stands.
func TestPagesShareSizesOfText(t *testing.T) {
	scale := []float64{13, 14, 16, 20, 26, 34, 56, 84}
	size := regexp.MustCompile(`font(?:-size)?(?::|=")([^;}"]*)`)
	number := regexp.MustCompile(`(^|[\s(,])(\d*\.?\d+)(px|rem|$)`)
	for _, path := range []string{demoStyle, demoPage + "parts.css", adminStyle, reportStyle, "../site/site.css", "../site/calculator/calculator.css", "../site/replay/replay.css", "../../docs/pictures/burst.svg"} {
		found := 0
		for _, m := range size.FindAllStringSubmatch(read(t, path), -1) {
			for _, n := range number.FindAllStringSubmatch(strings.TrimSpace(m[1]), -1) {
				v, err := strconv.ParseFloat(n[2], 64)
				require.NoError(t, err)
				if n[3] == "rem" {
					v *= 16
				}
				found++
				assert.Contains(t, scale, v, "%s of %s", m[0], path)
			}
		}
		assert.Positive(t, found, "the premise: %s has sizes", path)
	}
}

// A bucket is drawn alike wherever it stands: its parts are as long in the
// demo's script, its icon has the same outline, and its parts have the same
// colors.
func TestBucketsLookAlike(t *testing.T) {
	script := read(t, demoPage+"bucket.js")
	for name, want := range map[string]float64{
		"countable =": bucketform.Countable, "columns =": bucketform.Columns, "mouth:": bucketform.Mouth, "corner:": bucketform.Corner,
		"disc:": bucketform.Disc, "beside:": bucketform.Beside, "below:": bucketform.Below,
	} {
		assert.Regexp(t, fmt.Sprintf(`[ {]%s %v[, }]`, name, want), script, "the form of a bucket in the demo's script")
	}
	icon := bucketform.Of(16, 28, 4.8, bucketform.Countable)
	for _, d := range []string{icon.Body(), icon.Mouth(), icon.Water(0.6)} {
		assert.Contains(t, read(t, demoPage+"icon.svg"), d, "the demo's icon")
	}
	demo, admin, pictured := palette(t), variables(t, adminStyle), read(t, "../../docs/pictures/burst.svg")
	parts := read(t, demoPage+"parts.css")
	for part, look := range map[string]struct{ property, demo, admin, picture string }{
		"body":  {"fill", "sunk", "raised", "sunk"},
		"edge":  {"stroke", "edge", "edge", "edge-line"},
		"water": {"fill", "water", "water", ""},
		"token": {"fill", "token", "", "accent"},
		"lid":   {"fill", "no-tint", "wash", "alarm"},
	} {
		uses := func(style, rule, variable string) bool {
			return regexp.MustCompile(regexp.QuoteMeta(rule) + ` \{[^}]*\b` + look.property + `: var\(--` + variable + `\)`).MatchString(style)
		}
		assert.True(t, uses(parts, "."+part, look.demo), "the demo's %s has the color %s", part, look.demo)
		if look.admin != "" {
			assert.True(t, uses(read(t, adminStyle), ".bucket ."+part, look.admin), "the admin page's %s has the color %s", part, look.admin)
			assert.Equal(t, demo[look.demo], admin[look.admin], "the admin page's %s", part)
		}
		if look.picture != "" {
			assert.Contains(t, pictured, fmt.Sprintf(`.%s{`, look.picture), "the picture's %s", part)
			assert.Contains(t, pictured, fmt.Sprintf(`%s:%s}`, look.property, demo[look.demo][0]), "the picture's %s", part)
		}
	}
}

// The words for what a limiter does are allowed, denied and tokens left. No
// page and no picture has another one. Comments of programs may: nobody sees
// them.
func TestPagesShareWords(t *testing.T) {
	others := regexp.MustCompile(`(?i)\b(pass(ed|es)?|refus(e|ed|es|als?)|admit(s|ted)?|reject(s|ed)?)\b`)
	comments := regexp.MustCompile(`(?m)(^|\s)//.*$`)
	var paths []string
	for _, pattern := range []string{
		demoPage + "*.html", demoPage + "*.js", "../../adminlimit/page.html", replayStyle, "../site/*.html", "../site/*/*.html", "../site/*/*.js", "../../docs/pictures/*.svg",
	} {
		found, err := filepath.Glob(pattern)
		require.NoError(t, err)
		require.NotEmpty(t, found, pattern)
		paths = append(paths, found...)
	}
	for _, path := range paths {
		text := read(t, path)
		if filepath.Ext(path) == ".js" {
			text = comments.ReplaceAllString(text, "")
		}
		assert.Empty(t, others.FindAllString(text, -1), path)
	}
	for _, pattern := range []string{"../../examples/demo/*.go", "../../adminlimit/*.go", "../../cmd/ratelimit/internal/report/*.go", "../../cmd/ratelimit/internal/state/*.go", "../../cmd/ratelimit/*.go", "../../internal/oncall/*.go", "../../internal/pictures/*.go"} {
		found, err := filepath.Glob(pattern)
		require.NoError(t, err)
		require.NotEmpty(t, found, pattern)
		for _, path := range found {
			if strings.HasSuffix(path, "_test.go") {
				continue
			}
			file, err := parser.ParseFile(token.NewFileSet(), path, nil, 0)
			require.NoError(t, err)
			ast.Inspect(file, func(n ast.Node) bool {
				if f, ok := n.(*ast.Field); ok && f.Tag != nil {
					return false // names of JSON
				}
				if l, ok := n.(*ast.BasicLit); ok && l.Kind == token.STRING {
					assert.Empty(t, others.FindAllString(l.Value, -1), "%s: %s", path, l.Value)
				}
				return true
			})
		}
	}
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
	demo := palette(t) // axe measures no text of pictures, and no outlines
	for ground, texts := range map[string]string{
		"page": "text soft accent ok no", "sunk": "text soft accent token", "tint": "text soft", "no-tint": "no", "ok-tint": "ok", "ok": "page", "no": "page", "accent": "on-accent",
	} {
		for text := range strings.FieldsSeq(texts) {
			check(demoStyle+" "+text, demo[text], demo[ground], 4.5)
		}
	}
	for ground, lines := range map[string]string{"page": "edge token ok no accent", "sunk": "edge token", "tint": "edge token accent no", "no-tint": "no token"} {
		for line := range strings.FieldsSeq(lines) {
			check(demoStyle+" "+line, demo[line], demo[ground], 3)
		}
	}
	admin := variables(t, adminStyle)
	check("the page's main button", admin["on-go"], admin["go"], 4.5)
}
