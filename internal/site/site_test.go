package main

import (
	"fmt"
	"html/template"
	"math"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// A wrong link ends the build, with the page's name and the link's text, and so
// does what the pages' policy forbids.
func TestMistakesOfPagesAreNamed(t *testing.T) {
	for _, c := range []struct{ link, want string }{
		{`<a href="nowhere.html">`, "the site has no file demo/nowhere.html"},
		{`<a href="../start.html#nowhere">`, `start.html has no anchor "nowhere"`},
		{`<a href="#nowhere">`, `demo/index.html has no anchor "nowhere"`},
		{`<a href="/start.html">`, "begins at the host's root"},
		{`<a href="//example.com/">`, "leads out of the site"},
		{`<a href="http://example.com/">`, "leads out of the site"},
		{`<a href="javascript:alert()">`, "leads out of the site"},
		{`<img src="https://example.com/a.png">`, "leads out of the site"},
		{`<script src="https://example.com/a.js"></script>`, "leads out of the site"},
		{`<img src="../../escape.png">`, "the site has no file ../escape.png"},
		{`<p id="search">`, `the anchor "search" stands there twice`},
		{`<p style="color: red">`, "forbids it"},
		{`<p onclick="alert()">`, "forbids it"},
		{`<script>alert()</script>`, "forbids it"},
		{`<style>p { color: red }</style>`, "forbids it"},
		{`<a href="../start.html#here">`, ""},
		{`<a href="./#main">`, ""},
		{`<a href="https://example.com/">`, ""},
	} {
		out := newOutput()
		for _, p := range []page{
			{Path: "start.html", Title: "T", Description: "D", Body: `<h2 id="here">`},
			{Path: "index.html", Title: "T", Description: "D"},
			{Path: "demo/index.html", Title: "T", Description: "D", Bare: true, Body: `<main id="main">`},
		} {
			if p.Path == "demo/index.html" {
				p.Body += template.HTML(c.link)
			}
			if err := out.addPage(p); err != nil {
				t.Fatal(err)
			}
		}
		err := out.finish()
		switch {
		case c.want == "" && err != nil:
			t.Errorf("%s: %v", c.link, err)
		case c.want != "" && (err == nil || !strings.Contains(err.Error(), "demo/index.html: ") || !strings.Contains(err.Error(), c.want)):
			t.Errorf("%s: the error is %v; want one that names demo/index.html and says %q", c.link, err, c.want)
		}
	}
}

// Links of the repository's pages lead to pages of the site, or to GitHub.
func TestLinksOfPages(t *testing.T) {
	d := docs{out: newOutput(), copied: make(map[string]bool), sources: []source{{"README.md", ""}, {"docs/README.md", ""}, {"docs/plans.md", ""}}}
	for _, c := range []struct{ page, link, want string }{
		{"README.md", "docs/plans.md#a-b", "docs/plans.html#a-b"},
		{"README.md", "docs/README.md", "docs/"},
		{"docs/plans.md", "README.md", "../docs/"},
		{"docs/plans.md", "../README.md#three-recipes", "../start.html#three-recipes"},
		{"docs/plans.md", "#costs", "#costs"},
		{"docs/plans.md", "../core/limit.go#L3", repository + "/blob/main/core/limit.go#L3"},
		{"docs/plans.md", "../core", repository + "/tree/main/core"},
		{"docs/plans.md", "https://example.com/x", "https://example.com/x"},
	} {
		if got, err := d.link(c.page, c.link, true); err != nil || got != c.want {
			t.Errorf("%s links to %s: on the site that is %s, %v; want %s", c.page, c.link, got, err, c.want)
		}
	}
	if _, err := d.link("docs/plans.md", "planz.md", true); err == nil {
		t.Error("a link to no file is no error")
	}
	if got, err := d.link("docs/plans.md", "pictures/burst.svg", false); err != nil || got != "../docs/pictures/burst.svg" || d.out.files["docs/pictures/burst.svg"] == nil {
		t.Errorf("the picture is %s, %v; want that it is copied", got, err)
	}
}

// Anchors are those of GitHub, which links in the repository have.
// A table's corner is no header that screen readers announce.
func TestColumnsWithoutANameHaveNoHeader(t *testing.T) {
	body := render([]byte("| | b |\n| --- | --- |\n| 1 | 2 |\n"))
	frameTables(body)
	if got := string(inner(body)); !strings.Contains(got, "<td></td>") || !strings.Contains(got, "<th>b</th>") {
		t.Errorf("the table is %s", got)
	}
}

func TestAnchors(t *testing.T) {
	body := render([]byte("# Title\n\n## Costs & units: `WithCost`, 5 %\n\n## Again\n\n## Again\n\n### Äpfel_und-Birnen\n"))
	var p page
	nameHeadings(body, &p)
	var got []string
	for _, h := range p.toc {
		got = append(got, h.ID)
	}
	if want := []string{"costs--units-withcost-5-", "again", "again-1", "äpfel_und-birnen"}; !slices.Equal(got, want) || p.Title != "Title" {
		t.Errorf("the anchors of %q are %q; want %q", p.Title, got, want)
	}
}

// Each page of docs/ is in the navigation, in the order of docs/README.md, and
// has a title of its own.
func TestNavigation(t *testing.T) {
	out, err := site()
	if err != nil {
		t.Fatal(err)
	}
	index, err := os.ReadFile(filepath.Join(root, docsIndex))
	if err != nil {
		t.Fatal(err)
	}
	titles := make(map[string]string)
	at := -1
	for _, g := range out.groups() {
		for _, p := range g.Pages {
			if other := titles[p.Title]; other != "" {
				t.Errorf("%s and %s have the title %q", other, p.Path, p.Title)
			}
			titles[p.Title] = p.Path
			if g.Name == "Start" {
				continue
			}
			now := strings.Index(string(index), "("+filepath.Base(p.edit)+")")
			if now <= at {
				t.Errorf("%s does not stand where %s has it", p.Path, docsIndex)
			}
			at = now
		}
	}
	all, _ := filepath.Glob(filepath.Join(root, "docs/*.md"))
	if len(titles) != len(all)+1 {
		t.Errorf("the navigation has %d pages; want the %d of docs/, and the README", len(titles), len(all))
	}
}

// Code is coloured, and no letter of it is lost.
func TestHighlight(t *testing.T) {
	const text = "// A limit.\nfunc main() { fmt.Println(\"a\\n\", 60, nil) } // <b>&amp;\n"
	body := parse("<pre><code class=\"language-go\">" + strings.NewReplacer("&", "&amp;", "<", "&lt;").Replace(text) + "</code></pre>")
	highlight(body)
	if got := textOf(body); got != text {
		t.Errorf("the code is %q; want %q", got, text)
	}
	shown := string(inner(body))
	for _, want := range []string{`<span class="c">// A limit.`, `<span class="k">func</span>`, `<span class="f">Println</span>`, `<span class="n">60</span>`, `<span class="n">nil</span>`} {
		if !strings.Contains(shown, want) {
			t.Errorf("%s has no %s", shown, want)
		}
	}
}

// Letters of code can be read: WCAG asks for a contrast of 4.5.
func TestContrastOfCode(t *testing.T) {
	out, err := site()
	if err != nil {
		t.Fatal(err)
	}
	style := string(out.files["site.css"])
	variables := make(map[string]string)
	for _, v := range regexp.MustCompile(`(?m)^  --([a-z-]+): (.*);$`).FindAllStringSubmatch(style, -1) {
		variables[v[1]] = v[2]
	}
	lights := regexp.MustCompile(`^light-dark\((#\w{6}), (#\w{6})\)$`)
	pair := func(colour string) []string {
		if name, found := strings.CutPrefix(colour, "var(--"); found {
			colour = variables[strings.TrimSuffix(name, ")")]
		}
		found := lights.FindStringSubmatch(colour)
		if found == nil {
			t.Fatalf("%q: is no colour for light and one for dark", colour)
		}
		return found[1:]
	}
	rules := regexp.MustCompile(`(?m)^\.([a-z]) \{ color: (.*); \}$`).FindAllStringSubmatch(style, -1)
	classes := make(map[string]bool)
	for _, rule := range rules {
		classes[rule[1]] = true
		letters, ground := pair(rule[2]), pair("var(--sunk)")
		for i, when := range []string{"light", "dark"} {
			if c := contrast(t, letters[i], ground[i]); c < 4.5 {
				t.Errorf(".%s has a contrast of %.2f in %s; want 4.5", rule[1], c, when)
			}
		}
	}
	for kind, class := range colours {
		if !classes[class] {
			t.Errorf("%v has the class %s, which has no colour", kind, class)
		}
	}
}

// contrast is that of two colours: https://www.w3.org/TR/WCAG22/#dfn-contrast-ratio.
func contrast(t *testing.T, a, b string) float64 {
	t.Helper()
	luminance := func(colour string) (sum float64) {
		for i, weight := range []float64{0.2126, 0.7152, 0.0722} {
			n, err := strconv.ParseUint(colour[1+2*i:3+2*i], 16, 8)
			if err != nil {
				t.Fatal(err)
			}
			c := float64(n) / 255
			if c <= 0.04045 {
				c /= 12.92
			} else {
				c = math.Pow((c+0.055)/1.055, 2.4)
			}
			sum += weight * c
		}
		return sum
	}
	one, other := luminance(a), luminance(b)
	return (max(one, other) + 0.05) / (min(one, other) + 0.05)
}

// What is in a folder already is not lost to the site.
func TestOnlyASiteIsReplaced(t *testing.T) {
	out := newOutput()
	out.files = map[string][]byte{"sw.js": []byte(workerScript), "a/b.html": []byte("new")}
	dir := t.TempDir()
	for range 2 { // into an empty folder, and over the site
		if err := out.write(dir); err != nil {
			t.Fatal(err)
		}
		if got, err := os.ReadFile(filepath.Join(dir, "a", "b.html")); err != nil || string(got) != "new" {
			t.Fatalf("a/b.html is %q, %v", got, err)
		}
		if _, err := os.Stat(filepath.Join(dir, "old.html")); err == nil {
			t.Error("a page of the older site is left")
		}
		if err := os.WriteFile(filepath.Join(dir, "old.html"), nil, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	other := t.TempDir()
	if err := os.WriteFile(filepath.Join(other, "sw.js"), []byte("of another site"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(other, "thesis.txt"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := out.write(other); err == nil || !strings.Contains(err.Error(), other) {
		t.Errorf("writing beside a thesis: %v; want an error that names the folder", err)
	}
	if _, err := os.Stat(filepath.Join(other, "thesis.txt")); err != nil {
		t.Error("the thesis is lost")
	}
}

func TestFilesAreAddedOnceAndBelowTheTop(t *testing.T) {
	for _, name := range []string{"", ".", "..", "../a", "/a", "a/../b", "a//b", "./a"} {
		if err := newOutput().addFile(name, nil); err == nil {
			t.Errorf("%q can be added", name)
		}
	}
	out := newOutput()
	for i, want := range []string{"<nil>", `file "a": is added twice`} {
		if got := fmt.Sprint(out.addFile("a", nil)); got != want {
			t.Errorf("adding it %d times: %s; want %s", i+1, got, want)
		}
	}
}

// The demo's program is what takes longest to load.
func TestTheDemoIsSmall(t *testing.T) {
	out, err := site()
	if err != nil {
		t.Fatal(err)
	}
	const most = 2_000_000
	if small := gzipped(out.files["demo/demo.wasm"]); small > most {
		t.Errorf("demo.wasm is %d bytes gzipped, and may be %d", small, most)
	} else {
		t.Logf("demo.wasm is %d bytes gzipped", small)
	}
}
