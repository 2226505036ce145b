package policyfile

import (
	"encoding/json"
	"fmt"
	"strconv"
	"strings"

	"github.com/goccy/go-yaml/ast"
	"github.com/goccy/go-yaml/token"

	"github.com/tokenbucket-go/ratelimit/core/internal/printable"
	"github.com/tokenbucket-go/ratelimit/core/internal/quantity"
)

type document struct {
	file    string
	errs    []error
	full    bool                // nothing more is read or reported: a bound was reached
	size    int                 // of what is read, that behind aliases each time
	most    int                 // that size may be
	anchors map[string]ast.Node // above what is resolved
	wrongs  map[ast.Node]int    // those with mistakes, by the round that has reported them
	round   int                 // 0 resolves aliases, 1 reads the file, each further one reads a policy
}

// resolve replaces aliases by their values. An alias refers to a value that
// ends above it, so nothing contains itself.
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
		d.wrong(n, nil, strings.TrimLeft(n.GetPath(), "$."), fmt.Sprintf("*%.80s", name), fmt.Sprintf("refers to nothing above it: write &%.80s in front of a value", name))
	case *ast.SequenceNode:
		for i, item := range n.Values {
			n.Values[i] = d.resolve(item)
		}
	case *ast.MappingNode:
		for _, entry := range n.Values {
			if key, ok := d.resolve(entry.Key).(ast.MapKeyNode); ok {
				entry.Key = key
			}
			entry.Value = d.resolve(entry.Value)
		}
	}
	return n
}

// wrong reports a mistake in n, the node at p, or in what is missing there. It
// reports nothing that an earlier round has reported there.
func (d *document) wrong(n ast.Node, p *place, missing, value, reason string) {
	if round, seen := d.wrongs[n]; d.full || seen && round != d.round {
		return
	}
	d.wrongs[n] = d.round
	if m, ok := n.(*ast.MappingNode); ok && !m.IsFlowStyle && len(m.Values) > 0 {
		n = m.Values[0].Key
	}
	field := missing
	if p != nil {
		field = joined(p.path(), missing)
	}
	if d.full = len(d.errs) == maxErrors; d.full {
		field, value, reason = "", "", "too many mistakes: only the first 100 are reported"
	}
	e := at(n.GetToken(), value, reason)
	e.File, e.Field = d.file, printable.Text(printable.Clip(field, maxField))
	d.errs = append(d.errs, e)
}

// fits adds the size of n to that of the expanded file, and reports whether n
// may be read.
func (d *document) fits(n ast.Node, size int) bool {
	if d.size += perNode + size; d.size > d.most {
		d.wrong(n, nil, "", "", "aliases expand the file too far: use fewer of them, or split the file")
		d.full = true
	}
	return !d.full
}

// read returns n, the node at p, as encoding/json decodes JSON into an any, or
// nil if n is wrong.
func (d *document) read(n ast.Node, p *place) any {
	p.node = n
	s, isString := scalar(n)
	if !d.fits(n, len(s)+len(p.name)) {
		return nil
	}
	if p.depth > maxNesting {
		d.wrong(n, nil, "", "", "is nested too deep: a policy file needs 5 levels")
		d.full = true
		return nil
	}
	switch n := n.(type) {
	case *ast.MappingNode:
		fields := make(map[string]any)
		d.merge(n, p, fields)
		return fields
	case *ast.SequenceNode:
		items := make([]any, len(n.Values))
		for i, item := range n.Values {
			items[i] = d.read(item, p.item(i))
		}
		return items
	case *ast.BoolNode:
		return n.Value
	case *ast.NullNode, *ast.AliasNode: // what refers to nothing is reported already
		return nil
	}
	switch {
	case isString:
		return s
	case quantity.IsNumber(s):
		return json.Number(strings.ReplaceAll(s, "_", ""))
	}
	_, reason := quantity.ParseNumber(s) // such as 010 and .inf
	d.wrong(n, p, "", shown(n), reason+", or text in quotes")
	return nil
}

// merge adds the fields of m, which stands at p, that are not there yet, then
// those of the mappings that m merges.
func (d *document) merge(m *ast.MappingNode, p *place, fields map[string]any) {
	lines := make(map[string]int)
	var bases []ast.Node
	for _, entry := range m.Values {
		name := entry.Key.GetToken().Value
		_, inherits := fields[name]
		switch list, isList := entry.Value.(*ast.SequenceNode); {
		case entry.Key.IsMergeKey() && isList && d.fits(list, len(list.Values)):
			bases = append(bases, list.Values...)
		case entry.Key.IsMergeKey():
			bases = append(bases, entry.Value)
		case lines[name] > 0:
			d.wrong(entry.Key, p.in(name), "", "", "is given a second time: first on line "+strconv.Itoa(lines[name]))
		case !inherits:
			below := p.in(name)
			below.key, lines[name] = entry.Key, entry.Key.GetToken().Position.Line
			fields[name] = d.read(entry.Value, below)
		}
	}
	for _, base := range bases {
		if m, ok := base.(*ast.MappingNode); ok && d.fits(m, len(m.Values)) {
			d.merge(m, p, fields)
		} else if !ok {
			d.wrong(base, p, "<<", shown(base), "must be a mapping, or a list of mappings")
		}
	}
}

// scalar returns the text of n and whether it is a string. What is written as a
// number is one, even if the library calls it a string, such as 1e3.
func scalar(n ast.Node) (s string, isString bool) {
	switch n := n.(type) {
	case *ast.LiteralNode:
		return n.Value.Value, true
	case *ast.StringNode:
		return n.Value, n.Token.Type != token.StringType || !quantity.IsNumber(n.Value)
	}
	return n.GetToken().Value, false
}

func shown(n ast.Node) string {
	switch s, isString := scalar(n); {
	case isString:
		return fmt.Sprintf("%.80q", s)
	case n.Type() == ast.NullType:
		return "nothing"
	case n.Type() == ast.MappingType || n.Type() == ast.SequenceType:
		return "a " + strings.ToLower(n.Type().String())
	default:
		return fmt.Sprintf("%.80s", s)
	}
}
