package main

import (
	_ "embed"
	"encoding/json"
	"strings"

	"golang.org/x/net/html"
	"golang.org/x/net/html/atom"
)

//go:embed search.js
var searchScript []byte

// searchEntry is a section of a page, as the search knows it.
type searchEntry struct {
	Path    string `json:"path"`
	Page    string `json:"page"`
	Section string `json:"section,omitempty"` // "" before the first heading below the title
	Text    string `json:"text"`
}

// addSearch adds the index, and the script that searches in it.
func (o *output) addSearch() error {
	var entries []searchEntry
	for _, p := range o.pages {
		if len(p.index) == 0 {
			p.index = []searchEntry{{Text: p.Description}}
		}
		for _, e := range p.index {
			anchor := e.Path
			e.Path, e.Page = relative("index.html", p.Path), p.Title
			if anchor != "" {
				e.Path += "#" + anchor
			}
			entries = append(entries, e)
		}
	}
	index, err := json.Marshal(entries)
	if err != nil {
		return err
	}
	if err := o.addFile("search.json", index); err != nil {
		return err
	}
	return o.addFile("search.js", searchScript)
}

// sectionsOf are the sections of a page whose headings have anchors. Path is
// the anchor.
func sectionsOf(body *html.Node) []searchEntry {
	entries := []searchEntry{{}}
	var text strings.Builder
	end := func() {
		entries[len(entries)-1].Text = strings.Join(strings.Fields(text.String()), " ")
		text.Reset()
	}
	for n := range body.ChildNodes() {
		switch n.DataAtom {
		case atom.H1:
		case atom.H2, atom.H3, atom.H4:
			end()
			entries = append(entries, searchEntry{Path: attribute(n, "id"), Section: textOf(n)})
		default:
			for d := range n.Descendants() {
				if d.Type == html.TextNode {
					text.WriteString(d.Data)
				}
				if d.DataAtom == atom.Td || d.DataAtom == atom.Th || d.DataAtom == atom.Li || d.DataAtom == atom.P {
					text.WriteByte(' ')
				}
			}
			text.WriteByte(' ')
		}
	}
	end()
	return entries
}
