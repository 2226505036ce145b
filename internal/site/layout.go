package main

import (
	"bytes"
	_ "embed"
	"fmt"
	"html/template"
	"path"
	"slices"
	"strings"
)

const repository = "https://github.com/tokenbucket-go/ratelimit"

//go:embed layout.html
var layoutText string

var layout = template.Must(template.New("layout").Parse(layoutText))

// framed is a page with what the layout needs to know of the others.
type framed struct {
	page
	Tops          []page
	Groups        []group
	Contents      []heading
	Before, After *page
	Repository    string
}

// group is a part of the navigation of the documentation.
type group struct {
	Name  string
	Pages []page
}

// groups are the pages of the documentation.
func (o *output) groups() []group {
	var groups []group
	for _, p := range o.pages {
		if p.group == "" {
			continue
		}
		if n := len(groups); n == 0 || groups[n-1].Name != p.group {
			groups = append(groups, group{Name: p.group})
		}
		last := &groups[len(groups)-1]
		last.Pages = append(last.Pages, p)
	}
	return groups
}

// longPage is how many headings make a table of contents worth its place.
const longPage = 3

// layOut makes the files of the pages.
func (o *output) layOut() error {
	groups := o.groups()
	var tops, docs []page
	for _, p := range o.pages {
		if p.Top != "" {
			tops = append(tops, p)
		}
	}
	for _, g := range groups {
		docs = append(docs, g.Pages...)
	}
	for _, p := range o.pages {
		f := framed{page: p, Tops: tops, Repository: repository}
		if p.group != "" {
			f.Groups = groups
			at := slices.IndexFunc(docs, func(d page) bool { return d.Path == p.Path })
			if at > 0 {
				f.Before = &docs[at-1]
			}
			if at+1 < len(docs) {
				f.After = &docs[at+1]
			}
		}
		if len(p.toc) >= longPage {
			f.Contents = p.toc
		}
		var file bytes.Buffer
		if err := layout.Execute(&file, f); err != nil {
			return fmt.Errorf("page %q: %w", p.Path, err)
		}
		o.files[p.Path] = file.Bytes()
	}
	return nil
}

// To is the link from the page to another file of the site.
func (f framed) To(name string) string { return relative(f.Path, name) }

// relative is the link from one file of the site to another one.
func relative(from, to string) string {
	up := strings.Repeat("../", strings.Count(from, "/"))
	if dir, file := path.Split(to); file == "index.html" {
		if up+dir == "" {
			return "./"
		}
		return up + dir
	}
	return up + to
}

// Within reports whether the page is of the section that begins with top.
func (f framed) Within(top page) bool { return f.group != "" && top.group != "" }

// Heading is the begin of a text: the contents stand between it and the Rest.
func (f framed) Heading() template.HTML {
	if h1, _, found := strings.Cut(string(f.Body), endOfHeading); found {
		return template.HTML(h1 + endOfHeading)
	}
	return ""
}

// Rest is what follows the Heading.
func (f framed) Rest() template.HTML {
	return f.Body[len(f.Heading()):]
}

const endOfHeading = "</h1>"

// FullTitle is the page's title, and the site's.
func (f framed) FullTitle() string {
	if f.Path == "index.html" {
		return f.Title
	}
	return f.Title + " · ratelimit"
}

// Edit is where the page's source is.
func (f framed) Edit() string {
	if f.edit == "" {
		return ""
	}
	return repository + "/blob/main/" + f.edit
}

// Policy allows the page to load files of its own site, and nothing else. A
// worker from a blob: URL has the page's policy; one from a file would have that
// of the file's response, which hosts of static files don't send.
func (f framed) Policy() string {
	scripts, workers := "'self'", "'self'"
	if f.Wasm {
		scripts, workers = "'self' 'wasm-unsafe-eval'", "'self' blob:"
	}
	return "default-src 'none'; script-src " + scripts + "; style-src 'self'; img-src 'self'; connect-src 'self'; " +
		"worker-src " + workers + "; base-uri 'none'; form-action 'none'"
}
