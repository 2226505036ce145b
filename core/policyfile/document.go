package policyfile

import (
	"bytes"
	"cmp"
	"encoding"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/goccy/go-yaml"
	"github.com/goccy/go-yaml/ast"
	"github.com/goccy/go-yaml/lexer"
	"github.com/goccy/go-yaml/parser"
	"github.com/goccy/go-yaml/token"

	"github.com/tokenbucket-go/ratelimit/core"
	"github.com/tokenbucket-go/ratelimit/core/internal/mistake"
	"github.com/tokenbucket-go/ratelimit/core/internal/printable"
)

// The parser's time and memory grow with the square of the nesting and of a
// mapping's fields, and each value keeps the keys above it. So all are bounded
// before it runs, far above what policy files have.
const (
	maxBytes  = 256 << 10
	maxTokens = 20_000
	maxLevels = 10  // of brackets, and of columns outside them
	maxKey    = 256 // bytes
)

// document is a file and its mistakes.
type document struct {
	source string
	errs   []*Error
}

// wrong notes a mistake in n, which is at a path of the file.
func (d *document) wrong(n ast.Node, path, reason, code string) {
	if m, ok := n.(*ast.MappingNode); ok && !m.IsFlowStyle && len(m.Values) > 0 { // else its token is a colon
		n = m.Values[0].Key
	}
	d.wrongAt(n.GetToken(), path, reason, code)
}

func (d *document) wrongAt(t *token.Token, path, reason, code string) {
	d.errs = append(d.errs, &Error{
		Line: max(1, t.Position.Line), Column: max(1, t.Position.Column), Field: printable.Text(path), Reason: printable.Text(reason), code: code,
	})
}

// unknown notes a field that does not exist.
func (d *document) unknown(t *token.Token, path, instead string) {
	d.wrongAt(t, path, fmt.Sprintf("unknown field %q: %s", printable.Clip(mistake.HiddenName(t.Value), 80), instead), "RL206")
}

// parse returns the content of the only document in data, or nil.
func (d *document) parse(data []byte) (root ast.Node) {
	file := func(line int, reason, code string) {
		d.errs = append(d.errs, &Error{Line: line, Reason: reason, code: code})
	}
	data = bytes.ReplaceAll(bytes.TrimPrefix(data, []byte("\ufeff")), []byte("\r\n"), []byte("\n")) // \r\n shifts the library's lines
	switch {
	case len(data) > maxBytes:
		file(1, "the file is too large: at most 256 KiB are read", "RL204")
		return nil
	case !utf8.Valid(data):
		file(1+bytes.Count(data[:bytes.IndexRune(data, utf8.RuneError)], []byte("\n")), "the file is not UTF-8 text", "RL202")
		return nil
	case json.Valid(data): // tabs stand between tokens only, where the library refuses some
		data = bytes.ReplaceAll(data, []byte("\t"), []byte(" "))
	}
	d.source = string(data)
	tokens := tokenize(d.source)
	if !d.bounded(tokens) {
		return nil
	}
	parsed, err := parser.Parse(tokens, 0, parser.AllowDuplicateMapKey()) // the decoder refuses repeated keys; the parser takes the square of them
	if err != nil {
		d.syntax(err, "")
		return nil
	}
	for _, document := range parsed.Docs {
		switch {
		case document.Body == nil, document.Body.Type() == ast.DirectiveType:
		case root != nil:
			d.wrong(document.Body, "", "a second document is not read: put all into one", "RL203")
			return nil
		default:
			root = document.Body
		}
	}
	if root == nil || root.Type() == ast.NullType {
		file(1, "the file is empty", "RL202")
		return nil
	}
	return root
}

func tokenize(source string) token.Tokens {
	return slices.DeleteFunc(lexer.Tokenize(source), func(t *token.Token) bool { return t.Type == token.CommentType })
}

// unread are the parts of YAML that policy files don't have.
var unread = map[token.Type]string{
	token.AnchorType:     "anchors and aliases are not read: write the value out",
	token.AliasType:      "anchors and aliases are not read: write the value out",
	token.TagType:        "tags are not read: leave it out",
	token.MappingKeyType: "complex keys are not read: write name: value",
}

// bounded reports whether the parser may have tokens: it notes the first that
// policy files don't need, and what exceeds a bound.
func (d *document) bounded(tokens token.Tokens) bool {
	brackets := 0
	var columns []int // of the keys and dashes outside brackets above the next value
	last := new(token.Token)
	for i, t := range tokens {
		reason, code := unread[t.Type], "RL203"
		begins := t // what may be a key
		switch t.Type {
		case token.MappingStartType, token.SequenceStartType:
			brackets++
		case token.MappingEndType, token.SequenceEndType:
			brackets--
		case token.MappingValueType:
			begins = last
		}
		isKey := t.Type == token.MappingValueType && last.Position != nil
		if brackets == 0 && (isKey || t.Type == token.SequenceEntryType) {
			column := begins.Position.Column
			columns = slices.DeleteFunc(columns, func(above int) bool { return above >= column })
			columns = append(columns, column)
		}
		switch {
		case i >= maxTokens:
			reason, code = "too many tokens: at most 20,000 are read", "RL204"
		case len(columns)+brackets > maxLevels:
			reason, code = "is nested too deep: a policy file needs 5 levels", "RL204"
		case isKey && len(last.Value) > maxKey:
			reason, code = "a key has more than 256 bytes", "RL204"
		}
		if reason != "" {
			d.wrongAt(t, "", reason, code)
			return false
		}
		last = t
	}
	return true
}

// syntax notes what the parser or the decoder found.
func (d *document) syntax(err error, path string) {
	var e yaml.Error
	if !errors.As(err, &e) || e.GetToken() == nil {
		d.errs = append(d.errs, &Error{Line: 1, Reason: "invalid YAML", code: "RL202"})
		return
	}
	d.wrongAt(e.GetToken(), path, "invalid YAML: "+printable.Clip(e.GetMessage(), 200), "RL202")
}

// policy is a policy as the YAML library decodes it. What is text in YAML and
// something else in Go stays a node, so that a mistake has its place.
type policy struct {
	Name       string              `yaml:"name"`
	Limits     ast.Node            `yaml:"limits"`
	Plans      map[string]ast.Node `yaml:"plans"`
	Overrides  map[string]ast.Node `yaml:"overrides"`
	Blocked    []string            `yaml:"blocked"`
	OnFailure  ast.Node            `yaml:"on_failure"`
	LocalShare float64             `yaml:"local_share"`
	Headers    ast.Node            `yaml:"headers"`
	Shadow     bool                `yaml:"shadow"`
}

// fields are those of a policy in a file, and inFile their names by those in Go.
var fields, inFile = func() (names []string, inFile map[string]string) {
	inFile = make(map[string]string)
	for f := range reflect.TypeFor[policy]().Fields() {
		name := f.Tag.Get("yaml")
		names, inFile[f.Name] = append(names, name), name
	}
	return names, inFile
}()

// policy returns the policy that item is, at a path, and whether it has no
// mistakes.
func (d *document) policy(item ast.Node, path string) (p core.Policy, ok bool) {
	before := len(d.errs)
	if _, isMapping := item.(*ast.MappingNode); !isMapping {
		d.wrong(item, path, "must be a policy: a mapping with the fields "+strings.Join(fields, ", "), "RL208")
		return p, false
	}
	var in policy
	if err := yaml.NodeToValue(item, &in, yaml.Strict()); err != nil {
		d.decoding(err, path)
		return p, false
	}
	p = core.Policy{Name: in.Name, Blocked: in.Blocked, LocalShare: in.LocalShare, Shadow: in.Shadow}
	p.Limits = d.limits(in.Limits, path+".limits")
	p.Plans = d.lists(in.Plans, path+".plans.")
	p.Overrides = d.lists(in.Overrides, path+".overrides.")
	d.text(in.OnFailure, path+".on_failure", &p.OnFailure)
	d.text(in.Headers, path+".headers", &p.Headers)
	if len(d.errs) == before {
		d.meaning(item, path, p)
	}
	return p, len(d.errs) == before
}

// decoding notes why the library could not decode a policy.
func (d *document) decoding(err error, path string) {
	var (
		unknown   *yaml.UnknownFieldError
		duplicate *yaml.DuplicateKeyError
		value     *yaml.TypeError
		kind      *yaml.UnexpectedNodeTypeError
	)
	switch {
	case errors.As(err, &unknown):
		d.unknown(unknown.Token, path, "the fields of a policy are "+strings.Join(fields, ", "))
	case errors.As(err, &duplicate): // its message has the key, which can be secret
		d.wrongAt(duplicate.Token, path, "is given a second time", "RL207")
	case errors.As(err, &value):
		if value.StructFieldName != nil {
			path += "." + inFile[strings.TrimPrefix(*value.StructFieldName, "policy.")]
		}
		d.wrongAt(value.Token, path, cmp.Or(kinds[value.DstType.Kind()], "has a wrong value"), "RL208")
	case errors.As(err, &kind) && kind.Expected == ast.SequenceType:
		d.wrongAt(kind.Token, path, kinds[reflect.Slice], "RL208")
	case errors.As(err, &kind):
		d.wrongAt(kind.Token, path, kinds[reflect.Map], "RL208")
	default:
		d.syntax(err, path)
	}
}

// kinds are what a value must be, by its kind in Go.
var kinds = map[reflect.Kind]string{
	reflect.String: "must be text", reflect.Bool: "must be true or false", reflect.Float64: "must be a number", reflect.Slice: "must be a list", reflect.Map: "must be a mapping",
}

// lists reads a mapping to lists of limits.
func (d *document) lists(nodes map[string]ast.Node, path string) (lists map[string][]core.Limit) {
	for key, node := range nodes {
		if lists == nil {
			lists = make(map[string][]core.Limit)
		}
		lists[key] = d.limits(node, path+printable.Clip(key, maxKey))
	}
	return lists
}

// limits reads a list of limits, or none if there is no list.
func (d *document) limits(list ast.Node, path string) (limits []core.Limit) {
	items, ok := list.(*ast.SequenceNode)
	if !ok {
		if list != nil {
			d.wrong(list, path, "must be a list of limits, such as [60/min burst 20]", "RL109")
		}
		return nil
	}
	for i, item := range items.Values {
		var l core.Limit
		d.text(item, path+"["+strconv.Itoa(i)+"]", &l)
		limits = append(limits, l)
	}
	return limits
}

// text reads a value that is text in YAML. Without a node it has its default.
func (d *document) text(n ast.Node, path string, into encoding.TextUnmarshaler) {
	if n == nil {
		return
	}
	text, ok := scalar(n)
	if !ok {
		want, code := "must be text", "RL208"
		if _, isLimit := into.(*core.Limit); isLimit {
			want, code = `must be text, such as "60/min burst 20"`, "RL110"
		}
		d.wrong(n, path, want, code)
		return
	}
	if e := (*core.ConfigError)(nil); errors.As(into.UnmarshalText([]byte(text)), &e) {
		d.wrong(n, path, mistake.Says(e.Field, e.Value, e.Reason), e.Code())
	}
}

// scalar returns the text of n, if it is no list, mapping or null.
func scalar(n ast.Node) (string, bool) {
	switch n := n.(type) {
	case *ast.LiteralNode:
		return n.Value.Value, true
	case *ast.StringNode:
		return n.Value, true
	case *ast.NullNode:
		return "", false
	case ast.ScalarNode:
		return n.GetToken().Value, true
	}
	return "", false
}

// meaning notes all that is wrong with what a policy means.
func (d *document) meaning(item ast.Node, path string, p core.Policy) {
	var all interface{ Unwrap() []error }
	if !errors.As(p.Validate(), &all) {
		return
	}
	for _, each := range all.Unwrap() {
		if e := (*core.ConfigError)(nil); errors.As(each, &e) {
			n, at, of := find(item, strings.TrimPrefix(e.Field, "Policy."))
			d.wrong(n, path+at, of+mistake.Says(e.Field, e.Value, e.Reason), e.Code())
		}
	}
}

// find returns the node below a policy that core calls field, such as
// Limits[0].Capacity or Overrides.ann[0].Name, or else the node that lacks it;
// its path below the policy in the file; and which value of a limit is meant, in
// words.
func find(policy ast.Node, field string) (n ast.Node, path, of string) {
	end := strings.IndexAny(field+".", ".[")
	name, rest := inFile[field[:end]], field[end:]
	if n, path = entry(policy, name), "."+name; n == nil {
		return policy, path, ""
	}
	if lists, ok := n.(*ast.MappingNode); ok {
		longest := ""
		for _, e := range lists.Values {
			key := e.Key.GetToken().Value
			for _, written := range []string{key, printable.Clip(key, 128)} { // core shortens keys in some messages
				after, ok := strings.CutPrefix(field[end:], "."+written)
				if ok && (after == "" || after[0] == '[') && len(written) >= len(longest) {
					longest, n, rest = written, e.Value, after
				}
			}
		}
		path += "." + longest
	}
	index, below, _ := strings.Cut(strings.TrimPrefix(rest, "["), "]")
	list, isList := n.(*ast.SequenceNode)
	if i, err := strconv.Atoi(index); err == nil && isList && i < len(list.Values) {
		return list.Values[i], path + "[" + index + "]", words[strings.TrimPrefix(below, ".")]
	}
	return n, strings.TrimSuffix(path, "."), ""
}

// words are the fields of a limit, as messages begin with them.
var words = map[string]string{
	"Name": "name ", "Capacity": "burst ", "RefillRate": "rate ", "RefillInterval": "interval ", "Mode": "mode ", "Unit": "unit ",
	"Location": "zone ", "Anchor": "date ", "MaxHold": "hold ", "Penalty": "penalty ",
}

// entry returns the value of a field of a mapping, or nil.
func entry(n ast.Node, name string) ast.Node {
	if m, ok := n.(*ast.MappingNode); ok {
		for _, e := range m.Values {
			if e.Key.GetToken().Value == name {
				return e.Value
			}
		}
	}
	return nil
}
