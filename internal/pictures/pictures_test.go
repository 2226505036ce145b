package pictures

import (
	"bytes"
	"encoding/xml"
	"errors"
	"flag"
	"io"
	"math"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"unicode/utf8"

	"github.com/stretchr/testify/require"
)

var write = flag.Bool("write", false, "write the pictures into docs/pictures")

// docs holds the pages, and their pictures in a directory, seen from this
// package.
const docs = "../../docs"

// Each picture is what the library does now, and no other file is beside them.
func TestPicturesAreUpToDate(t *testing.T) {
	for name, picture := range pictures {
		path := filepath.Join(docs, "pictures", name)
		drawn := draw(t, picture)
		if *write {
			require.NoError(t, os.WriteFile(path, drawn, 0o644))
		}
		if got, err := os.ReadFile(path); err != nil || !bytes.Equal(got, drawn) {
			t.Errorf("docs/pictures/%s is not what the library does: run go generate ./internal/pictures, and look at it (%v)", name, err)
		}
	}
	files, err := os.ReadDir(filepath.Join(docs, "pictures"))
	require.NoError(t, err)
	for _, file := range files {
		if pictures[file.Name()] == nil {
			t.Errorf("docs/pictures/%s is drawn by nothing: delete it", file.Name())
		}
	}
}

// A picture is the same each time: nothing in it depends on the order of
// goroutines.
func TestPicturesAreTheSameEachTime(t *testing.T) {
	for name, picture := range pictures {
		first := draw(t, picture)
		for range 20 {
			if !bytes.Equal(first, draw(t, picture)) {
				t.Errorf("%s differs from one drawing to the next", name)
				break
			}
		}
	}
}

// A page shows each picture, with a text for those who can't see it. Numbers of
// the text are the picture's.
func TestPagesShowEachPicture(t *testing.T) {
	pages, err := filepath.Glob(filepath.Join(docs, "*.md"))
	require.NoError(t, err)
	pages = append(pages, filepath.Join(docs, "../README.md"))
	shown := make(map[string]string) // the texts, by the picture's name
	image := regexp.MustCompile(`!\[([^\]]*)\]\((?:docs/)?pictures/([^)]+)\)`)
	narrower := regexp.MustCompile(`<img src="(?:docs/)?pictures/([^"]+)" width="\d+" alt="([^"]*)">`)
	for _, page := range pages {
		text, err := os.ReadFile(page)
		require.NoError(t, err)
		for _, found := range image.FindAllStringSubmatch(string(text), -1) {
			shown[found[2]] = found[1]
		}
		for _, found := range narrower.FindAllStringSubmatch(string(text), -1) {
			shown[found[1]] = found[2]
		}
	}
	numbers := regexp.MustCompile(`\d[\d,]*\b`)
	for name := range pictures {
		if alt, ok := shown[name]; !ok {
			t.Errorf("no page shows pictures/%s", name)
		} else if len(strings.Fields(alt)) < 5 {
			t.Errorf("the text of pictures/%s does not say what it shows: %q", name, alt)
		} else {
			var drawn []string
			for _, e := range parse(t, name, draw(t, pictures[name])) {
				if e.name != "style" {
					drawn = append(drawn, numbers.FindAllString(e.text, -1)...)
				}
			}
			for _, n := range numbers.FindAllString(alt, -1) {
				if !slices.Contains(drawn, n) {
					t.Errorf("the text of pictures/%s has the number %s, which the picture has not: %q", name, n, alt)
				}
			}
		}
	}
}

// A picture is well-formed, has a title and a description, and scales. Its
// classes have a style, and all text has a color of the theme and stays within
// the picture where it is largest.
func TestPicturesAreReadable(t *testing.T) {
	var colors []string
	for _, ink := range inks {
		colors = append(colors, ink.name)
	}
	for name, picture := range pictures {
		elements := parse(t, name, draw(t, picture))
		require.Regexp(t, `^0 0 720 \d+$`, elements[0].attributes["viewBox"], "%s: it scales to the width of the page", name)
		for _, wanted := range []string{"title", "desc"} {
			if i := slices.IndexFunc(elements, func(e element) bool { return e.name == wanted }); i < 0 || len(elements[i].text) < 10 {
				t.Errorf("%s has no <%s> for screen readers", name, wanted)
			}
		}
		for _, e := range elements {
			classes := strings.Fields(e.attributes["class"])
			for _, class := range classes {
				if !strings.Contains(style(), "."+class+"{") {
					t.Errorf("%s: the class %q has no style", name, class)
				}
			}
			if e.name != "text" {
				continue
			}
			if !slices.ContainsFunc(classes, func(class string) bool { return slices.Contains(colors, class) }) {
				t.Errorf("%s: the text %q has no color of the theme", name, e.text)
			}
			x, err := strconv.ParseFloat(e.attributes["x"], 64)
			require.NoError(t, err)
			long := 11.5 * float64(utf8.RuneCountInString(e.text)) // as wide as system fonts are at 20 px
			if slices.Contains(classes, "end") {
				x -= long
			} else if slices.Contains(classes, "middle") {
				x -= long / 2
			}
			if x < 4 || x+long > width-4 {
				t.Errorf("%s: the text %q does not fit: it goes from %.0f to %.0f, of %.0f", name, e.text, x, x+long, width)
			}
		}
	}
}

// Text has enough contrast on every ground, in both themes: WCAG 2.2, 1.4.3.
func TestColorsHaveContrast(t *testing.T) {
	for _, ink := range inks {
		for _, ground := range append(slices.Clone(washes), paper) {
			for theme, pair := range map[string][2]string{"light": {ink.light, ground.light}, "dark": {ink.dark, ground.dark}} {
				if got := contrast(t, pair[0], pair[1]); got < 4.5 {
					t.Errorf("%s on %s has a contrast of %.2f in the %s theme, less than 4.5", ink.name, ground.name, got, theme)
				}
			}
		}
	}
}

// draw returns a picture as it is drawn in a bubble of its own.
func draw(t *testing.T, picture func() *canvas) (drawn []byte) {
	t.Helper()
	synctest.Test(t, func(*testing.T) { drawn = []byte(picture().String()) })
	return drawn
}

// element is a start tag of a picture, with the text after it.
type element struct {
	name, text string
	attributes map[string]string
}

func parse(t *testing.T, name string, svg []byte) (elements []element) {
	t.Helper()
	decoder := xml.NewDecoder(bytes.NewReader(svg))
	for {
		token, err := decoder.Token()
		if errors.Is(err, io.EOF) {
			return elements
		}
		require.NoError(t, err, "%s is well-formed", name)
		switch token := token.(type) {
		case xml.StartElement:
			e := element{name: token.Name.Local, attributes: make(map[string]string)}
			for _, a := range token.Attr {
				e.attributes[a.Name.Local] = a.Value
			}
			elements = append(elements, e)
		case xml.CharData:
			if len(elements) > 0 {
				elements[len(elements)-1].text += strings.TrimSpace(string(token))
			}
		}
	}
}

// contrast is that of two colors such as #1d5fd0, by WCAG: 1 to 21.
func contrast(t *testing.T, a, b string) float64 {
	t.Helper()
	la, lb := luminance(t, a), luminance(t, b)
	return (max(la, lb) + 0.05) / (min(la, lb) + 0.05)
}

func luminance(t *testing.T, color string) (sum float64) {
	t.Helper()
	rgb, err := strconv.ParseUint(strings.TrimPrefix(color, "#"), 16, 32)
	require.NoError(t, err)
	for i, weight := range []float64{0.0722, 0.7152, 0.2126} {
		v := float64(rgb>>(8*i)&0xff) / 255
		if v <= 0.04045 {
			v /= 12.92
		} else {
			v = math.Pow((v+0.055)/1.055, 2.4)
		}
		sum += weight * v
	}
	return sum
}
