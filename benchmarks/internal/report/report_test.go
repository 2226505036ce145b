package report

import (
	"encoding/xml"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestWriteMeasuredKeepsTheRest(t *testing.T) {
	path := filepath.Join(t.TempDir(), "benchmarks.md")
	if err := WriteMeasured(path, "old"); err != nil {
		t.Fatal(err)
	}
	text, _ := os.ReadFile(path)
	if err := os.WriteFile(path, append(text, "## By hand\n"...), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := WriteMeasured(path, "new"); err != nil {
		t.Fatal(err)
	}
	page, _ := os.ReadFile(path)
	if s := string(page); strings.Contains(s, "old") || !strings.Contains(s, "new") || !strings.HasSuffix(s, "## By hand\n") {
		t.Errorf("page is\n%s", s)
	}
	if err := os.WriteFile(path, []byte("no marks"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := WriteMeasured(path, "new"); err == nil {
		t.Error("a page without marks must not be overwritten")
	}
}

func TestThePlotIsWellFormed(t *testing.T) {
	p := Plot{Title: `a < b & "c"`, X: []float64{1, 4, 512}, Lines: []Line{
		{"first", []float64{10, 200_000, 410_000}, []float64{9, 190_000, 400_000}, []float64{12, 220_000, 480_000}},
		{Name: "second", Y: []float64{9, 9, 9}}, {Name: "third", Y: []float64{9, 9, 9}},
	}}
	svg := p.SVG()
	if n := strings.Count(svg, "<path "); n != 3 {
		t.Errorf("%d error bars, must be one for each point of the first line", n)
	}
	if !strings.Contains(svg, "@media (prefers-color-scheme: dark)") {
		t.Error("the plot must follow the reader's theme")
	}
	d := xml.NewDecoder(strings.NewReader(svg))
	for {
		_, err := d.Token()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
	}
}
