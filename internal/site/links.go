package main

import (
	"bytes"
	"errors"
	"fmt"
	"net/url"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"golang.org/x/net/html"
	"golang.org/x/net/html/atom"
)

// linked are the attributes that hold links.
var linked = []string{"href", "src", "srcset", "poster", "data"}

// relink makes the links of a page of the repository those of the site: pages
// lead to pages, pictures are copied, and other files are on GitHub.
func (d *docs) relink(body *html.Node, file string) error {
	var mistakes []error
	for n := range body.Descendants() {
		for i, a := range n.Attr {
			if !slices.Contains(linked, a.Key) {
				continue
			}
			link, err := d.link(file, a.Val, n.DataAtom == atom.A)
			if err != nil {
				mistakes = append(mistakes, fmt.Errorf("%s: the link %q: %w", file, a.Val, err))
			}
			n.Attr[i].Val = link
		}
	}
	return errors.Join(mistakes...)
}

// link is a link of a page on the site. Only what a reader follows may lead
// elsewhere.
func (d *docs) link(page, link string, followed bool) (string, error) {
	u, err := url.Parse(link)
	if err != nil {
		return link, err
	}
	if on, ok := strings.CutPrefix(link, published); ok && strings.HasSuffix(on, "/") {
		return relative(onSite(page), on+"index.html"), nil
	}
	if u.IsAbs() || u.Path == "" {
		return link, nil
	}
	file := path.Join(path.Dir(page), u.Path)
	if d.onPage(file) {
		u.Path = relative(onSite(page), onSite(file))
		return u.String(), nil
	}
	info, err := os.Stat(filepath.Join(root, file))
	if err != nil {
		return link, errors.New("no such file in the repository")
	}
	if to := instead[file]; followed && to != "" {
		return relative(onSite(page), to), nil
	}
	if !followed {
		if !d.copied[file] {
			d.copied[file] = true
			if err := d.out.addSource(file, file); err != nil {
				return link, err
			}
		}
		return relative(onSite(page), file), nil
	}
	kind := "/blob/main/"
	if info.IsDir() {
		kind = "/tree/main/"
	}
	u.Path = file
	return repository + kind + u.String(), nil
}

// check follows every link of every page. It is an error if one does not lead
// to a file of the site, and to an anchor that the file has, or if a page loads
// what is not of the site.
func (o *output) check() error {
	anchors := make(map[string]map[string]bool)
	trees := make(map[string]*html.Node)
	var mistakes []error
	for _, name := range o.names() {
		if path.Ext(name) != ".html" {
			continue
		}
		tree, err := html.Parse(bytes.NewReader(o.files[name]))
		if err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
		trees[name], anchors[name] = tree, make(map[string]bool)
		for n := range tree.Descendants() {
			id := attribute(n, "id")
			if id != "" && anchors[name][id] {
				mistakes = append(mistakes, fmt.Errorf("%s: the anchor %q stands there twice", name, id))
			}
			anchors[name][id] = true
		}
	}
	for _, name := range o.names() {
		tree := trees[name]
		if tree == nil {
			continue
		}
		for n := range tree.Descendants() {
			if n.Type == html.ElementNode {
				if err := allowed(n); err != nil {
					mistakes = append(mistakes, fmt.Errorf("%s: %w", name, err))
				}
			}
			for _, a := range n.Attr {
				if !slices.Contains(linked, a.Key) {
					continue
				}
				if err := o.follow(name, a.Val, n.DataAtom == atom.A, anchors); err != nil {
					mistakes = append(mistakes, fmt.Errorf("%s: the link %q: %w", name, a.Val, err))
				}
			}
		}
	}
	return errors.Join(mistakes...)
}

// follow follows a link of a page of the site.
func (o *output) follow(from, link string, followed bool, anchors map[string]map[string]bool) error {
	u, err := url.Parse(link)
	switch {
	case err != nil:
		return err
	case u.Scheme == "https" && u.Host != "" && followed:
		return nil
	case u.IsAbs() || u.Host != "":
		return errors.New("leads out of the site; only https links that a reader follows may")
	case strings.HasPrefix(u.Path, "/"):
		return errors.New("begins at the host's root; a site below a path needs a relative link")
	}
	to := from
	if u.Path != "" {
		to = path.Join(path.Dir(from), u.Path)
		if strings.HasSuffix(u.Path, "/") {
			to = path.Join(to, "index.html")
		}
	}
	if _, there := o.files[to]; !there {
		return fmt.Errorf("the site has no file %s", to)
	}
	if u.Fragment != "" && anchors[to] != nil && !anchors[to][u.Fragment] {
		return fmt.Errorf("%s has no anchor %q", to, u.Fragment)
	}
	return nil
}

// allowed returns an error if the pages' policy forbids an element.
func allowed(n *html.Node) error {
	if n.DataAtom == atom.Style || n.DataAtom == atom.Script && attribute(n, "src") == "" {
		return fmt.Errorf("<%s>: the page's policy forbids it; write a file, and name it in the page's Styles or Scripts", n.Data)
	}
	for _, a := range n.Attr {
		if a.Key == "style" || strings.HasPrefix(a.Key, "on") {
			return fmt.Errorf("<%s %s=%q>: the page's policy forbids it; write it into a style sheet or a script", n.Data, a.Key, a.Val)
		}
	}
	return nil
}
