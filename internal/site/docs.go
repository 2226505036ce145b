package main

import (
	"errors"
	"fmt"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"strings"

	"golang.org/x/net/html"
	"golang.org/x/net/html/atom"
)

// docsIndex names the pages of the documentation, in the order of their
// navigation. start is the page to begin with, the repository's own README.
const (
	docsIndex = "docs/README.md"
	start     = "README.md"
)

// writeDocs adds the pages of docs/, and the README.
func writeDocs(out *output) error {
	d := docs{out: out, copied: make(map[string]bool)}
	if err := d.order(); err != nil {
		return err
	}
	var mistakes []error
	for _, p := range d.sources {
		if err := d.add(p); err != nil {
			mistakes = append(mistakes, err)
		}
	}
	return errors.Join(mistakes...)
}

// docs are the pages that are made from Markdown.
type docs struct {
	out     *output
	sources []source
	copied  map[string]bool // pictures, by their paths
}

// source is a page of the repository that is one of the site.
type source struct{ file, group string }

// order reads from docsIndex which pages there are. A group of them is a
// paragraph that ends with a colon, and the list below it.
func (d *docs) order() error {
	text, err := os.ReadFile(filepath.Join(root, docsIndex))
	if err != nil {
		return err
	}
	const first = "Start"
	d.sources = []source{{start, first}, {docsIndex, first}}
	known := map[string]bool{start: true, docsIndex: true}
	group := ""
	for n := range render(text).ChildNodes() {
		switch {
		case n.DataAtom == atom.P:
			group = strings.TrimSuffix(textOf(n), ":")
		case n.DataAtom == atom.Ul:
			for a := range elements(n, atom.A) {
				file := path.Join("docs", attribute(a, "href"))
				if path.Dir(file) != "docs" || path.Ext(file) != ".md" || known[file] {
					continue
				}
				known[file] = true
				d.sources = append(d.sources, source{file, group})
			}
		}
	}
	all, err := filepath.Glob(filepath.Join(root, "docs", "*.md"))
	if err != nil {
		return err
	}
	for _, file := range all {
		if name := "docs/" + filepath.Base(file); !known[name] {
			return fmt.Errorf("%s: has no link to %s", docsIndex, name)
		}
	}
	return nil
}

// add adds a page.
func (d *docs) add(s source) error {
	text, err := readSource(s.file)
	if err != nil {
		return err
	}
	body := render(text)
	p := page{Path: onSite(s.file), group: s.group, edit: s.file}
	if s.file == docsIndex {
		p.Top = "Docs"
	}
	var mistakes []error
	if err := d.relink(body, s.file); err != nil {
		mistakes = append(mistakes, err)
	}
	if s.file == start {
		first(body, atom.H1).FirstChild.Data = "Get started" // below the name of the site
	}
	nameHeadings(body, &p)
	p.index = sectionsOf(body)
	highlight(body)
	frameTables(body)
	p.Description = describe(body)
	p.Body = inner(body)
	return errors.Join(append(mistakes, d.out.addPage(p))...)
}

// badges are lines of pictures that other hosts serve.
var badges = regexp.MustCompile(`(?m)^\[!\[.*\n`)

// readSource reads a page of the repository, without its badges: the site loads
// nothing from elsewhere.
func readSource(file string) ([]byte, error) {
	text, err := os.ReadFile(filepath.Join(root, file))
	return badges.ReplaceAll(text, nil), err
}

// published is where the site is, as pages of the repository link to it.
const published = "https://tokenbucket-go.github.io/ratelimit/"

// instead are pages of the site for files of the repository that start what
// the page shows, or are its source.
var instead = map[string]string{
	"examples/demo/main.go":              "demo/index.html",
	"internal/site/calculator/page.html": "calculator/index.html",
	"internal/site/replay/page.html":     "replay/index.html",
}

// onSite is the path of a page of the repository on the site.
func onSite(file string) string {
	switch file {
	case start:
		return "start.html"
	case docsIndex:
		return "docs/index.html"
	}
	return strings.TrimSuffix(file, ".md") + ".html"
}

// onPage reports whether a file of the repository is a page of the site.
func (d *docs) onPage(file string) bool {
	for _, s := range d.sources {
		if s.file == file {
			return true
		}
	}
	return false
}

// describe is the first paragraph of a page, cut at the end of a sentence.
func describe(body *html.Node) string {
	const enough = 200
	text := lead(body)
	if len(text) <= enough {
		return text
	}
	if end := strings.LastIndex(text[:enough], ". "); end > 0 {
		return text[:end+1]
	}
	return text[:strings.LastIndexByte(text[:enough], ' ')] + " …"
}

// lead is the first paragraph of a page that has text.
func lead(body *html.Node) string {
	for p := range elements(body, atom.P) {
		if text := strings.Join(strings.Fields(textOf(p)), " "); text != "" {
			return text
		}
	}
	return ""
}
