package main

import (
	"bytes"
	_ "embed"
	"errors"
	"html/template"
	"regexp"
	"strings"
	"unicode"
	"unicode/utf8"

	"golang.org/x/net/html"
	"golang.org/x/net/html/atom"
)

//go:embed index.html
var indexText string

var index = template.Must(template.New("index").Parse(indexText))

// oneLine is the line of the README's program that limits requests.
var oneLine = regexp.MustCompile(`(?m)^\s*(r\.Use\(ginlimit\.PerIP\(.*\))$`)

// writeIndex adds the first page. What it says of the library is from the
// README.
func writeIndex(out *output) error {
	text, err := readSource(start)
	if err != nil {
		return err
	}
	readme := render(text)
	line := oneLine.FindSubmatch(text)
	title, rest, cut := strings.Cut(lead(readme), ": ")
	picture := first(readme, atom.Img)
	if line == nil || !cut || picture == nil {
		return errors.New(start + ": has no first paragraph with a colon, no picture, or no line such as r.Use(ginlimit.PerIP(…)), for the first page of the site to show")
	}
	picture.Attr = append(picture.Attr, html.Attribute{Key: "class", Val: "picture"})
	code := parse(`<pre class="line"><code class="language-go">` + html.EscapeString(string(line[1])) + `</code></pre>`)
	highlight(code)
	var body bytes.Buffer
	err = index.Execute(&body, struct {
		Title, Lead   string
		Line, Picture template.HTML
		Tools         []page
		Groups        []group
	}{title, capital(rest), breakable(inner(code)), outer(picture), out.tools(), out.groups()})
	return errors.Join(err, out.addPage(page{
		Path: "index.html", Title: "ratelimit: " + title, Description: describe(readme), Body: template.HTML(body.String()),
	}))
}

// capital is a text with a capital letter at its begin.
func capital(text string) string {
	first, size := utf8.DecodeRuneInString(text)
	return string(unicode.ToUpper(first)) + text[size:]
}

// tools are the pages in the navigation at the top, without the documentation.
func (o *output) tools() []page {
	var tools []page
	for _, p := range o.pages {
		if p.Top != "" && p.group == "" {
			tools = append(tools, p)
		}
	}
	return tools
}

// Link is the link to the page from the first one.
func (p page) Link() string { return relative("index.html", p.Path) }

// breakable lets a line of code break where a name has a dot.
func breakable(code template.HTML) template.HTML {
	return template.HTML(strings.ReplaceAll(string(code), ".", ".<wbr>"))
}
