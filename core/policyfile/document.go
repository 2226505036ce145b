package policyfile

import (
	"encoding/json"
	"fmt"
	"strconv"
	"strings"

	"github.com/goccy/go-yaml/ast"
	"github.com/goccy/go-yaml/token"

	"github.com/tokenbucket-go/ratelimit/core/internal/quantity"
)

// maxSize bounds what aliases can make of a file, in bytes.
const maxSize = 2 << 20

// document is a file that is read. Paths are those of [Error.Field].
type document struct {
	report
	anchors map[string]ast.Node // above what is resolved
	size    int                 // of what is read, that behind aliases each time
	values  map[string]ast.Node // by path
	keys    map[string]ast.Node // of mappings, by path
	wrongs  map[ast.Node]bool   // those with mistakes
}

// resolve returns n with the values of anchors and aliases in their place. An alias refers to a value that ends above
// it, so nothing contains itself.
func (d *document) resolve(n ast.Node) ast.Node {
	switch n := n.(type) {
	case *ast.AnchorNode:
		v := d.resolve(n.Value)
		d.anchors[n.Name.GetToken().Value] = v
		return v
	case *ast.AliasNode:
		name := n.Value.GetToken().Value
		if v := d.anchors[name]; v != nil {
			return v
		}
		d.wrong(n, strings.TrimLeft(n.GetPath(), "$."), "*"+clip(name), "refers to nothing above it: write &"+clip(name)+" in front of a value")
	case *ast.SequenceNode:
		for i, item := range n.Values {
			n.Values[i] = d.resolve(item)
		}
	case *ast.MappingNode:
		for _, entry := range n.Values {
			entry.Value = d.resolve(entry.Value)
		}
	}
	return n
}

// wrong reports a mistake in n.
func (d *document) wrong(n ast.Node, path, value, reason string) {
	d.wrongs[n] = true
	if m, ok := n.(*ast.MappingNode); ok && !m.IsFlowStyle && len(m.Values) > 0 {
		n = m.Values[0].Key
	}
	e := at(n.GetToken(), value, reason)
	e.Field = path
	d.add(e)
}

// read returns n as encoding/json has it, or nil if it is wrong.
func (d *document) read(n ast.Node, path string) any {
	d.values[path] = n
	s, isString := scalar(n)
	if d.size += 8 + len(s); d.size > maxSize {
		d.wrong(n, "", "", "aliases expand to more than 2 MiB: write less")
		d.full = true
	}
	if d.full {
		return nil
	}
	switch n := n.(type) {
	case *ast.MappingNode:
		fields := make(map[string]any)
		d.merge(n, path, fields)
		return fields
	case *ast.SequenceNode:
		items := make([]any, len(n.Values))
		for i, item := range n.Values {
			items[i] = d.read(item, fmt.Sprintf("%s[%d]", path, i))
		}
		return items
	case *ast.BoolNode:
		return n.Value
	case *ast.NullNode, *ast.AliasNode: // what refers to nothing is reported already
		return nil
	}
	if isString {
		return s
	}
	if !quantity.IsNumber(s) { // such as 010 and .inf
		_, reason := quantity.ParseNumber(s)
		d.wrong(n, path, clip(s), reason)
		return nil
	}
	return json.Number(strings.ReplaceAll(s, "_", ""))
}

// merge adds the fields of m that are not there yet, then those of the mappings that m merges.
func (d *document) merge(m *ast.MappingNode, path string, fields map[string]any) {
	lines := make(map[string]int)
	var bases []ast.Node
	for _, entry := range m.Values {
		if d.size += 8; entry.Key.IsMergeKey() {
			bases = append(bases, entry.Value)
			continue
		}
		name := entry.Key.GetToken().Value
		field := join(path, name)
		if _, inherits := fields[name]; lines[name] > 0 {
			d.wrong(entry.Key, field, "", "is given a second time: first on line "+strconv.Itoa(lines[name]))
		} else if !inherits {
			d.keys[field], lines[name] = entry.Key, entry.Key.GetToken().Position.Line
			fields[name] = d.read(entry.Value, field)
		}
	}
	for _, base := range bases {
		d.mergeBase(base, path, fields)
	}
}

// mergeBase adds the fields of n, which is a mapping or a list of mappings.
func (d *document) mergeBase(n ast.Node, path string, fields map[string]any) {
	list := []ast.Node{n}
	if s, ok := n.(*ast.SequenceNode); ok {
		list = s.Values
	}
	for _, base := range list {
		if m, ok := base.(*ast.MappingNode); ok && !d.full {
			d.merge(m, path, fields)
		} else if !d.wrongs[base] {
			d.wrong(base, join(path, "<<"), shown(base), "must be a mapping, or a list of mappings")
		}
	}
}

// scalar returns the text of n and whether it is a string. A number is one by how it is written, also where the
// library calls it a string, such as 1e3.
func scalar(n ast.Node) (s string, isString bool) {
	switch n := n.(type) {
	case *ast.LiteralNode:
		return n.Value.Value, true
	case *ast.StringNode:
		return n.Value, n.Token.Type != token.StringType || !quantity.IsNumber(n.Value)
	}
	return n.GetToken().Value, false
}

// shown returns n as messages show it.
func shown(n ast.Node) string {
	switch n.(type) {
	case *ast.MappingNode:
		return "a mapping"
	case *ast.SequenceNode:
		return "a list"
	case *ast.NullNode:
		return "nothing"
	}
	s, isString := scalar(n)
	if s = clip(s); isString {
		return strconv.Quote(s)
	}
	return s
}

// join appends a field to a path.
func join(path, name string) string { return strings.Trim(path+"."+name, ".") }
