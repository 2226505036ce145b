package policyfile

import (
	"bytes"
	"encoding/json"
	"errors"
	"slices"
	"unicode/utf8"

	"github.com/goccy/go-yaml/ast"
	"github.com/goccy/go-yaml/lexer"
	"github.com/goccy/go-yaml/parser"
	"github.com/goccy/go-yaml/token"
)

// maxBytes bounds what is read: some thousands of policies.
const maxBytes = 1 << 20

// document is a file that is read. Paths are those of [Error.Field].
type document struct {
	file    string
	root    ast.Node // nil if the file can't be parsed
	errs    []error
	full    bool                // nothing more is read or reported: a bound was reached
	wrongs  map[ast.Node]bool   // those with mistakes
	values  map[string]ast.Node // by path
	visited int                 // nodes, those behind aliases each time
	anchors map[string]ast.Node
	aliases map[*ast.AliasNode]ast.Node
}

func newDocument(file string, data []byte) *document {
	d := &document{file: file, wrongs: make(map[ast.Node]bool), values: make(map[string]ast.Node), anchors: make(map[string]ast.Node), aliases: make(map[*ast.AliasNode]ast.Node)}
	root, e := parse(bytes.TrimPrefix(data, []byte("\ufeff")))
	if e != nil {
		e.File = file
		d.errs = append(d.errs, e)
		return d
	}
	ast.Walk(d, root)
	d.root = d.follow(root, "")
	return d
}

// Visit notes to what each alias refers: the last anchor of that name in front of it.
func (d *document) Visit(n ast.Node) ast.Visitor {
	switch n := n.(type) {
	case *ast.AnchorNode:
		d.anchors[n.Name.GetToken().Value] = n.Value
	case *ast.AliasNode:
		d.aliases[n] = d.anchors[n.Value.GetToken().Value]
	}
	return d
}

// parse returns the content of the only document in data.
func parse(data []byte) (root ast.Node, e *Error) {
	defer func() { // no input is known to make the library panic
		if recover() != nil {
			root, e = nil, &Error{Line: 1, Reason: "invalid YAML: the parser failed"}
		}
	}()
	switch {
	case len(data) > maxBytes:
		return nil, &Error{Line: 1, Reason: "the file is too large: at most 1 MiB is read"}
	case !utf8.Valid(data):
		line := 1 + bytes.Count(data[:bytes.IndexRune(data, utf8.RuneError)], []byte("\n"))
		return nil, &Error{Line: line, Reason: "the file is not UTF-8 text"}
	}
	if json.Valid(data) { // tabs stand between tokens only, where the library refuses some
		data = bytes.ReplaceAll(data, []byte("\t"), []byte(" "))
	}
	tokens := slices.DeleteFunc(lexer.Tokenize(string(data)), func(t *token.Token) bool { return t.Type == token.CommentType })
	if e := check(tokens, data); e != nil {
		return nil, e
	}
	// Repeated keys are reported later, with their field and both lines.
	file, err := parser.Parse(tokens, 0, parser.AllowDuplicateMapKey())
	var syntax interface {
		GetMessage() string
		GetToken() *token.Token
	}
	if errors.As(err, &syntax) {
		return nil, at(syntax.GetToken(), "", "invalid YAML: "+clip(syntax.GetMessage(), 200))
	}
	if n := len(file.Docs); n > 0 {
		root = file.Docs[n-1].Body // directives are documents in front
	}
	if root == nil || root.Type() == ast.NullType {
		return nil, &Error{Line: 1, Reason: "the file is empty"}
	}
	return root, nil
}
