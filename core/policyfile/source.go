package policyfile

import (
	"slices"
	"strings"
	"unicode"

	"github.com/goccy/go-yaml/lexer"
	"github.com/goccy/go-yaml/printer"
	"github.com/goccy/go-yaml/token"

	"github.com/tokenbucket-go/ratelimit/core"
	"github.com/tokenbucket-go/ratelimit/core/internal/mistake"
	"github.com/tokenbucket-go/ratelimit/core/internal/printable"
)

// maxSource is the longest line that is shown.
const maxSource = 200

// show adds to each mistake its line of the file, as the YAML library prints it.
//
// Errors are logged. Keys of overrides and of blocked can be secret, and so can
// a file that is none of policies. So only what is no secret is shown: the
// fields of policies, limits, and the values of the other fields. The rest is
// masked, but for the kind of a key, which ends at its first colon.
func (d *document) show(errs []*Error) {
	tokens := lexer.Tokenize(d.source)
	written := make([]string, len(tokens))
	field := ""
	for i, t := range tokens {
		written[i] = t.Origin
		isKey := i+1 < len(tokens) && tokens[i+1].Type == token.MappingValueType
		if isKey {
			field = t.Value
		}
		switch {
		case t.Type == token.CommentType:
			t.Origin = blank(t.Origin, ' ')
		case isText(t) && !public(t.Value, field, isKey):
			t.Origin = masked(t.Origin)
		}
	}
	for _, e := range errs {
		at := slices.IndexFunc(tokens, func(t *token.Token) bool {
			return t.Position.Line == e.Line && t.Position.Column == e.Column && t.Type != token.CommentType
		})
		if at < 0 {
			continue
		}
		t := tokens[at]
		hidden := t.Origin
		if e.code == "RL110" || e.code == "RL206" && !strings.Contains(t.Value, ":") { // the message has it
			t.Origin = written[at]
		}
		e.Source = line(tokens, at)
		t.Origin = hidden
	}
}

// line returns the line of a token, with a mark below it. It has the library
// print no more than the line, because others can be long.
func line(tokens token.Tokens, at int) string {
	number := tokens[at].Position.Line
	var alone token.Tokens
	mark := 0
	for i, t := range tokens {
		before := i+1 < len(tokens) && tokens[i+1].Position.Line == number // it has the space in front of the line
		if t.Position.Line != number && !before {
			continue
		}
		if i == at {
			mark = len(alone)
		}
		c := t.Clone()
		c.Prev, c.Next = nil, nil
		alone.Add(c)
	}
	if len(alone) > maxSource {
		return ""
	}
	var p printer.Printer
	var lines []string
	for line := range strings.SplitSeq(p.PrintErrorToken(alone[mark], false), "\n") {
		if strings.HasPrefix(line, ">") || len(lines) > 0 {
			lines = append(lines, printable.Text(printable.Clip(strings.TrimRight(line, " "), maxSource)))
		}
		if len(lines) > 0 && strings.Trim(line, " ") == "^" {
			break
		}
	}
	if len(lines) != 2 || len(lines[1]) >= maxSource {
		return ""
	}
	return strings.Join(lines, "\n")
}

// isText reports whether t is no punctuation.
func isText(t *token.Token) bool {
	switch t.Type {
	case token.SequenceEntryType, token.CollectEntryType, token.MappingKeyType, token.MappingValueType, token.MappingStartType, token.MappingEndType,
		token.SequenceStartType, token.SequenceEndType, token.DocumentHeaderType, token.DocumentEndType, token.LiteralType, token.FoldedType,
		token.AnchorType, token.AliasType, token.TagType:
		return false
	}
	return true
}

// public reports whether the value of a token, below a field, is no secret.
func public(value, field string, isKey bool) bool {
	if isKey {
		return value == "policies" || slices.Contains(fields, value)
	}
	switch field {
	case "name", "on_failure", "local_share", "headers", "shadow":
		return true
	}
	return new(core.Limit).UnmarshalText([]byte(value)) == nil
}

// masked returns text of the same width that shows at most the kind of a key.
func masked(text string) string {
	kind := mistake.KindOf(text)
	return kind + blank(text[len(kind):], '*')
}

// blank returns text with another character for all but space and quotes.
func blank(text string, with rune) string {
	return strings.Map(func(r rune) rune {
		if unicode.IsSpace(r) || strings.ContainsRune(`"'`, r) {
			return r
		}
		return with
	}, text)
}
