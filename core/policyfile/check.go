package policyfile

import (
	"bytes"
	"strconv"
	"strings"

	"github.com/goccy/go-yaml/token"
)

// The parser's time grows with the square of what a mapping holds, its memory with nesting and the length of names.
// So these are bounded before it runs, far above what policy files have.
const (
	maxTokens = 1 << 17
	maxDepth  = 8   // of brackets
	maxColumn = 64  // of keys and list items without brackets
	maxName   = 64  // bytes of a key
	maxFields = 100 // of a mapping
)

// check returns the first mistake that must not reach the parser, or nil: kinds of tokens that no policy file needs,
// and what is too much. The tokens have no comments among them.
func check(tokens token.Tokens, data []byte) *Error {
	lines := bytes.Split(data, []byte("\n"))
	depth, fields, headers := 0, 0, 0 // of brackets; since the last item of a list; of documents
	last := new(token.Token)
	for i, t := range tokens {
		column, reason := 0, ""
		if tab := tabBefore(t, last, lines); tab > 0 && depth == 0 {
			return &Error{Line: t.Position.Line, Column: tab, Reason: "invalid YAML: a tab can't indent: use spaces"}
		}
		switch text := strings.TrimSpace(t.Origin); t.Type {
		case token.SingleQuoteType, token.DoubleQuoteType:
		case token.MergeKeyType:
			if text != t.Value { // the library would drop what is in front
				reason = "is part of a name: put it in quotes"
			}
		default:
			if strings.Contains(text, "\t") { // and the tab
				reason = "has a tab: write spaces"
			}
		case token.TagType:
			reason = "is a tag: leave it out"
		case token.MappingKeyType:
			reason = "begins a complex key: write name: value"
		case token.DocumentHeaderType:
			if i > 0 && tokens[0].Type != token.DirectiveType || headers > 0 {
				reason = "begins a second document: put all into one"
			}
			headers++
		case token.MappingStartType, token.SequenceStartType:
			depth++
		case token.MappingEndType, token.SequenceEndType:
			depth--
		case token.CollectEntryType:
			fields = 0
		case token.SequenceEntryType:
			fields, column = 0, t.Position.Column
		case token.MappingValueType:
			if fields++; last.Position != nil {
				column = last.Position.Column
			}
			if len(last.Value) > maxName {
				return at(last, strconv.Quote(clip(last.Value, 80)), "is not a field")
			}
		}
		switch {
		case last.Type == token.DocumentEndType:
			reason = "begins a second document: put all into one"
		case i >= maxTokens:
			reason = "is too much: at most 131,072 words and signs are read"
		case fields > maxFields:
			reason = "is too much: at most 100 fields are read of a mapping"
		case depth > maxDepth || depth == 0 && column > maxColumn:
			reason = "is nested too deep: a policy file needs 5 levels"
		}
		if reason != "" {
			return at(t, clip(t.Value, 80), reason)
		}
		last = t
	}
	return nil
}

// tabBefore returns the column of a tab that indents the line of t, or 0.
func tabBefore(t, last *token.Token, lines [][]byte) int {
	line := t.Position.Line
	if line < 1 || line > len(lines) || last.Position != nil && line == last.Position.Line {
		return 0
	}
	text := lines[line-1]
	return 1 + bytes.IndexByte(text[:len(text)-len(bytes.TrimLeft(text, " \t"))], '\t')
}
