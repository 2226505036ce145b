package core

import (
	"bytes"
	"encoding/json"
	"strings"
	"unicode/utf8"

	"go.yaml.in/yaml/v3"
)

// jsonNodes returns JSON as the tree that YAML makes of YAML, or nil when data is no JSON. YAML 1.1 is not quite
// a superset of JSON: it has no \/, no pairs of surrogates, no long keys, and folds what Unicode calls line
// ends.
func jsonNodes(data []byte) *yaml.Node {
	if !json.Valid(data) || !utf8.Valid(data) {
		return nil
	}
	r := &jsonReader{decoder: json.NewDecoder(bytes.NewReader(data)), data: data, line: 1}
	r.decoder.UseNumber()
	return r.value()
}

// jsonReader makes nodes of valid JSON and knows where it is.
type jsonReader struct {
	decoder *json.Decoder
	data    []byte

	at        int // up to here lines are counted
	line      int
	lineStart int
}

// next returns the next token, or an end in place of an error, and a node at its place.
func (r *jsonReader) next() (json.Token, *yaml.Node) {
	start := int(r.decoder.InputOffset())
	start += len(r.data[start:]) - len(bytes.TrimLeft(r.data[start:], " \t\r\n,:"))
	if between := r.data[r.at:start]; bytes.IndexByte(between, '\n') >= 0 {
		r.line += bytes.Count(between, []byte("\n"))
		r.lineStart = r.at + bytes.LastIndexByte(between, '\n') + 1
	}
	r.at = start
	token, err := r.decoder.Token()
	if err != nil {
		token = json.Delim(']')
	}
	return token, &yaml.Node{Line: r.line, Column: utf8.RuneCount(r.data[r.lineStart:start]) + 1}
}

// value returns the next value, or nil at the end of an object or a list.
func (r *jsonReader) value() *yaml.Node {
	token, n := r.next()
	n.Kind = yaml.ScalarNode
	switch v := token.(type) {
	case string:
		n.Tag, n.Value, n.Style = "!!str", v, yaml.DoubleQuotedStyle
	case json.Number:
		n.Tag, n.Value = "!!int", v.String()
		if strings.ContainsAny(n.Value, ".eE") {
			n.Tag = "!!float"
		}
	case bool:
		n.Tag, n.Value = "!!bool", "false"
		if v {
			n.Value = "true"
		}
	case nil:
		n.Tag, n.Value = "!!null", "null"
	case json.Delim:
		switch v {
		case '{':
			n.Kind, n.Tag = yaml.MappingNode, "!!map"
		case '[':
			n.Kind, n.Tag = yaml.SequenceNode, "!!seq"
		default:
			return nil
		}
		for child := r.value(); child != nil; child = r.value() {
			n.Content = append(n.Content, child)
		}
	}
	return n
}
