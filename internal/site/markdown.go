package main

import (
	"bytes"
	"html/template"
	"iter"
	"strconv"
	"strings"
	"unicode"

	"github.com/yuin/goldmark"
	"github.com/yuin/goldmark/extension"
	markdownhtml "github.com/yuin/goldmark/renderer/html"
	"golang.org/x/net/html"
	"golang.org/x/net/html/atom"
)

var markdown = goldmark.New(
	goldmark.WithExtensions(
		extension.NewTable(extension.WithTableCellAlignMethod(extension.TableCellAlignAttribute)), // a style would be against the pages' policy
		extension.Strikethrough,
	),
	goldmark.WithRendererOptions(markdownhtml.WithUnsafe()), // the pages are the project's own
)

// render returns a node whose children are the HTML of a Markdown text.
func render(text []byte) *html.Node {
	var out bytes.Buffer
	if err := markdown.Convert(text, &out); err != nil {
		panic(err) // a buffer takes all
	}
	return parse(out.String())
}

// parse returns a node whose children are those of an HTML fragment.
func parse(fragment string) *html.Node {
	body := &html.Node{Type: html.ElementNode, DataAtom: atom.Body, Data: "body"}
	list, err := html.ParseFragment(strings.NewReader(fragment), body)
	if err != nil {
		panic(err) // a string can be read, and all text is HTML
	}
	for _, n := range list {
		body.AppendChild(n)
	}
	return body
}

// heading is a heading of a page, with its anchor.
type heading struct {
	Level    int
	ID, Text string
}

// nameHeadings gives headings the anchors that GitHub gives them, takes the
// title from the first one, and makes the table of contents.
func nameHeadings(body *html.Node, p *page) {
	const mostInContents = 30
	taken := make(map[string]int)
	for n := range elements(body, atom.H1, atom.H2, atom.H3, atom.H4) {
		level, text := int(n.Data[1]-'0'), textOf(n)
		id := anchor(text)
		taken[id]++
		if times := taken[id]; times > 1 {
			id += "-" + strconv.Itoa(times-1)
		}
		n.Attr = append(n.Attr, html.Attribute{Key: "id", Val: id})
		if level == 1 {
			p.Title = text
			continue
		}
		link := element(atom.A, "class", "anchor", "href", "#"+id, "aria-hidden", "true", "tabindex", "-1") // the table of contents has it for all
		n.AppendChild(link)
		if level <= 3 {
			p.toc = append(p.toc, heading{level, id, text})
		}
	}
	if len(p.toc) > mostInContents {
		all := p.toc
		p.toc = nil
		for _, h := range all {
			if h.Level == 2 {
				p.toc = append(p.toc, h)
			}
		}
	}
}

// anchor is the name that GitHub gives a heading.
func anchor(text string) string {
	return strings.Map(func(r rune) rune {
		switch {
		case r == ' ':
			return '-'
		case r == '-' || r == '_' || unicode.IsLetter(r) || unicode.IsNumber(r):
			return unicode.ToLower(r)
		}
		return -1
	}, text)
}

// frameTables lets each table scroll in itself, by hand and by keyboard. A
// column without a name has no header: screen readers would announce it.
func frameTables(body *html.Node) {
	for n := range elements(body, atom.Th) {
		if textOf(n) == "" {
			n.DataAtom, n.Data = atom.Td, atom.Td.String()
		}
	}
	last := ""
	for n := range elements(body, atom.H1, atom.H2, atom.H3, atom.H4, atom.Table) {
		if n.DataAtom != atom.Table {
			last = textOf(n)
			continue
		}
		frame := element(atom.Div, "class", "scroll", "tabindex", "0", "role", "region", "aria-label", "Table: "+last)
		n.Parent.InsertBefore(frame, n)
		n.Parent.RemoveChild(n)
		frame.AppendChild(n)
	}
}

// elements are the descendants of a node that have one of the names. The tree
// may change at what was yielded.
func elements(n *html.Node, names ...atom.Atom) iter.Seq[*html.Node] {
	return func(yield func(*html.Node) bool) {
		var list []*html.Node
		for d := range n.Descendants() {
			for _, name := range names {
				if d.DataAtom == name && d.Type == html.ElementNode {
					list = append(list, d)
				}
			}
		}
		for _, d := range list {
			if !yield(d) {
				return
			}
		}
	}
}

// element is a new element with attributes, each a name and a value.
func element(name atom.Atom, attributes ...string) *html.Node {
	n := &html.Node{Type: html.ElementNode, DataAtom: name, Data: name.String()}
	for i := 0; i < len(attributes); i += 2 {
		n.Attr = append(n.Attr, html.Attribute{Key: attributes[i], Val: attributes[i+1]})
	}
	return n
}

func attribute(n *html.Node, name string) string {
	for _, a := range n.Attr {
		if a.Key == name {
			return a.Val
		}
	}
	return ""
}

// textOf is all text in a node.
func textOf(n *html.Node) string {
	var text strings.Builder
	for d := range n.Descendants() {
		if d.Type == html.TextNode {
			text.WriteString(d.Data)
		}
	}
	return text.String()
}

// first is the first descendant with the name, or nil.
func first(n *html.Node, name atom.Atom) *html.Node {
	for d := range elements(n, name) {
		return d
	}
	return nil
}

// outer is a node as HTML.
func outer(n *html.Node) template.HTML {
	var out bytes.Buffer
	if err := html.Render(&out, n); err != nil {
		panic(err) // a buffer takes all, and the node was parsed
	}
	return template.HTML(out.String())
}

// inner is the children of a node as HTML.
func inner(n *html.Node) (all template.HTML) {
	for child := range n.ChildNodes() {
		all += outer(child)
	}
	return all
}
