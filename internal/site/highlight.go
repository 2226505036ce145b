package main

import (
	"strings"

	"github.com/alecthomas/chroma/v2"
	"github.com/alecthomas/chroma/v2/lexers"
	"golang.org/x/net/html"
	"golang.org/x/net/html/atom"
)

// colours are the classes of code, by the kind of token. A kind that is not
// here has the class of the kind above it, or none.
var colours = map[chroma.TokenType]string{
	chroma.Keyword:         "k",
	chroma.KeywordType:     "t",
	chroma.NameTag:         "k", // a member's name, in YAML and JSON
	chroma.NameFunction:    "f",
	chroma.NameBuiltin:     "t",
	chroma.LiteralString:   "s",
	chroma.LiteralNumber:   "n",
	chroma.Comment:         "c",
	chroma.KeywordConstant: "n",
	chroma.GenericPrompt:   "c",
	chroma.GenericOutput:   "o",
}

// highlight gives the code of a page its colours.
func highlight(body *html.Node) {
	for pre := range elements(body, atom.Pre) {
		pre.Attr = append(pre.Attr, html.Attribute{Key: "tabindex", Val: "0"})
		code := pre.FirstChild
		if code == nil || code.DataAtom != atom.Code {
			continue
		}
		language, named := strings.CutPrefix(attribute(code, "class"), "language-")
		lexer := lexers.Get(language)
		if !named || lexer == nil {
			continue
		}
		tokens, err := chroma.Coalesce(lexer).Tokenise(nil, textOf(code))
		if err != nil {
			continue // then it has no colours
		}
		for child := code.FirstChild; child != nil; child = code.FirstChild {
			code.RemoveChild(child)
		}
		for _, token := range tokens.Tokens() {
			text := &html.Node{Type: html.TextNode, Data: token.Value}
			if class := colour(token.Type); class != "" {
				span := element(atom.Span, "class", class)
				span.AppendChild(text)
				text = span
			}
			code.AppendChild(text)
		}
	}
}

// colour is the class of a kind of token.
func colour(kind chroma.TokenType) string {
	for _, k := range []chroma.TokenType{kind, kind.SubCategory(), kind.Category()} {
		if class := colours[k]; class != "" {
			return class
		}
	}
	return ""
}
