package policyfile

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/goccy/go-yaml"
	"github.com/goccy/go-yaml/ast"
	"github.com/goccy/go-yaml/lexer"
	"github.com/goccy/go-yaml/parser"
	"github.com/goccy/go-yaml/token"
)

// The parser's time and memory grow with the square of the nesting and of a
// mapping's fields. So both are bounded before it runs, far above what policy
// files have.
const (
	maxBytes  = 256 << 10
	maxTokens = 20_000
	maxDepth  = 8       // of brackets
	maxColumn = 100     // of the colons and dashes outside brackets
	maxName   = 256     // bytes of a key
	maxPath   = 1 << 10 // bytes of the keys outside brackets above a value
	maxErrors = 100     // keeps the report readable
	maxField  = 400     // likewise, bytes of a path
)

// Aliases expand a file. The bound of its expanded size depends on its size, so
// that no file without aliases exceeds it.
const (
	maxNesting = 12            // of what is read
	perNode    = 64            // what a value takes beside its text
	perByte    = perNode/2 + 1 // a value has two bytes at least
	leastSize  = 256 << 10
	maxSize    = 2 << 20
)

// parse returns the content of the only document in data.
func parse(data []byte) (root ast.Node, e *Error) {
	defer func() { // no input is known to make the library panic
		if recover() != nil {
			root, e = nil, &Error{Line: 1, Reason: "invalid YAML: the parser failed"}
		}
	}()
	data = bytes.ReplaceAll(bytes.TrimPrefix(data, []byte("\ufeff")), []byte("\r\n"), []byte("\n")) // \r\n shifts the library's lines
	switch {
	case len(data) > maxBytes:
		return nil, &Error{Line: 1, Reason: "the file is too large: at most 256 KiB are read"}
	case !utf8.Valid(data):
		return nil, &Error{Line: 1 + bytes.Count(data[:bytes.IndexRune(data, utf8.RuneError)], []byte("\n")), Reason: "the file is not UTF-8 text"}
	case json.Valid(data): // tabs stand between tokens only, where the library refuses some
		data = bytes.ReplaceAll(data, []byte("\t"), []byte(" "))
	}
	tokens := slices.DeleteFunc(lexer.Tokenize(string(data)), func(t *token.Token) bool { return t.Type == token.CommentType })
	if e := check(tokens); e != nil {
		return nil, e
	}
	file, err := parser.Parse(tokens, 0, parser.AllowDuplicateMapKey()) // repeated keys are reported later, with both lines
	var syntax yaml.Error
	if errors.As(err, &syntax) && syntax.GetToken() != nil {
		reason := fmt.Sprintf("invalid YAML: %.200s", syntax.GetMessage())
		if strings.HasSuffix(reason, "not allowed in this context") {
			reason += ": fields of one mapping begin in one column, and so do the dashes of one list"
		}
		return nil, at(syntax.GetToken(), "", reason)
	}
	if err != nil {
		return nil, &Error{Line: 1, Reason: "invalid YAML"}
	}
	if n := len(file.Docs); n > 0 {
		root = file.Docs[n-1].Body // directives are documents in front
	}
	if root == nil || root.Type() == ast.NullType {
		return nil, &Error{Line: 1, Reason: "the file is empty"}
	}
	return root, nil
}

// check returns the first mistake that must not reach the parser, or nil: what
// the parser would ignore, and what exceeds a bound.
func check(tokens token.Tokens) *Error {
	depth, headers := 0, 0 // of brackets; of documents
	last := new(token.Token)
	var above keysAbove
	for i, t := range tokens {
		reason, text := "", strings.TrimSpace(t.Origin)
		switch t.Type {
		case token.TagType:
			reason = "is a tag: leave it out"
		case token.MappingKeyType:
			reason = "begins a complex key: write name: value"
		case token.DocumentHeaderType:
			if headers++; i > 0 && tokens[0].Type != token.DirectiveType {
				headers++ // the first has none
			}
		case token.MappingStartType, token.SequenceStartType:
			depth++
		case token.MappingEndType, token.SequenceEndType:
			depth--
		}
		switch {
		case t.Type == token.MappingValueType && len(last.Value) > maxName:
			return at(last, fmt.Sprintf("%.80q", last.Value), "is not a field")
		case depth == 0 && t.Type == token.MappingValueType && last.Position != nil && above.add(last.Position.Column, len(last.Value)) > maxPath:
			reason = "is nested too deep: a policy file needs 5 levels"
		case headers > 1 || last.Type == token.DocumentEndType:
			reason = "begins a second document: put all into one"
		case t.Type == token.MergeKeyType && text != t.Value:
			reason = "is part of a name: put it in quotes"
		case i >= maxTokens:
			reason = "is one token too many: at most 20,000 YAML tokens are read"
		case depth > maxDepth, depth == 0 && (t.Type == token.MappingValueType || t.Type == token.SequenceEntryType) && t.Position.Column > maxColumn:
			reason = "is nested too deep: a policy file needs 5 levels"
		case strings.Contains(text, "\t") && t.Type != token.SingleQuoteType && t.Type != token.DoubleQuoteType:
			reason = "has a tab: write spaces"
		}
		if reason != "" {
			return at(t, fmt.Sprintf("%.80s", strings.TrimSpace(t.Value)), reason)
		}
		last = t
	}
	return nil
}

// keysAbove are the keys outside brackets above the next value, each with its
// column and its length.
type keysAbove []struct{ column, length int }

// add adds a key, and removes those that are not above it. It returns the
// length of all.
func (k *keysAbove) add(column, length int) (sum int) {
	*k = slices.DeleteFunc(*k, func(above struct{ column, length int }) bool { return above.column >= column })
	*k = append(*k, struct{ column, length int }{column, length})
	for _, above := range *k {
		sum += above.length
	}
	return sum
}
