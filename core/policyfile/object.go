package policyfile

import (
	"slices"
	"strconv"
	"strings"

	"github.com/goccy/go-yaml/ast"
)

const (
	// maxNodes bounds what aliases can make of a file.
	maxNodes = 1 << 20
	// maxMerges bounds how deep aliases and merge keys nest.
	maxMerges = 20
)

// visit counts n and its children and reports whether they may be read.
func (d *document) visit(n ast.Node, children int) bool {
	if d.visited += 1 + children; d.visited > maxNodes {
		d.wrong(n, "", "", "aliases expand to more than 1,048,576 nodes: write less")
		d.full = true
	}
	return !d.full
}

// follow returns n without its anchor, or what an alias refers to.
func (d *document) follow(n ast.Node, path string) ast.Node {
	for range maxMerges {
		switch node := n.(type) {
		case *ast.AnchorNode:
			n = node.Value
		case *ast.AliasNode:
			if d.aliases[node] == nil {
				name := clip(node.Value.GetToken().Value, 80)
				d.wrong(n, path, "*"+name, "refers to nothing above it: write &"+name+" in front of a value")
				return n
			}
			n = d.aliases[node]
		}
	}
	return n
}

// list returns the items of n, at least one, or nil. what they are in words.
func (d *document) list(n ast.Node, path, what string) []ast.Node {
	list, ok := n.(*ast.SequenceNode)
	switch {
	case !ok:
		d.wrong(n, path, shown(n), "must be a list of "+what)
	case len(list.Values) == 0:
		d.wrong(n, path, "", "is an empty list: at least one is required")
	case d.visit(n, len(list.Values)):
		return list.Values
	}
	return nil
}

// object is a mapping with fields of known names.
type object struct {
	*document
	path, what string // what it is in words
	names      []string
	fields     map[string]ast.Node
}

// object returns the mapping n, with the fields of the mappings that it merges.
func (d *document) object(n ast.Node, path, what string, names []string, required ...string) *object {
	o := &object{d, path, what, names, make(map[string]ast.Node)}
	m, ok := n.(*ast.MappingNode)
	if !ok {
		d.wrong(n, path, shown(n), "must be "+what+", a mapping with the fields "+strings.Join(o.names, ", "))
		return o
	}
	o.merge(m, 0)
	for _, name := range required {
		if o.fields[name] == nil {
			d.wrong(n, join(path, name), "", "is required")
		}
	}
	return o
}

// merge adds the fields of m that are not there yet, then those of the mappings that m merges.
func (o *object) merge(m *ast.MappingNode, depth int) {
	if !o.visit(m, 2*len(m.Values)) {
		return
	}
	if depth > maxMerges {
		o.wrong(m, o.path, "", "merges more than 20 mappings in each other")
		return
	}
	lines := make(map[string]int)
	var bases []ast.Node
	for _, entry := range m.Values {
		key := o.follow(entry.Key, o.path)
		name, _ := scalar(key)
		switch first := lines[name]; {
		case key.Type() == ast.MergeKeyType:
			base := o.follow(entry.Value, join(o.path, "<<"))
			if list, ok := base.(*ast.SequenceNode); ok {
				bases = append(bases, list.Values...)
			} else {
				bases = append(bases, base)
			}
			continue
		case first > 0:
			o.wrong(key, join(o.path, clip(name, 80)), "", "is given a second time: first on line "+strconv.Itoa(first))
			continue
		case !slices.Contains(o.names, name):
			o.wrong(key, o.path, shown(key), "is not a field of "+o.what+": "+suggestion(name, o.names))
		case o.fields[name] == nil:
			o.fields[name] = entry.Value
		}
		lines[name] = key.GetToken().Position.Line
	}
	for _, n := range bases {
		n = o.follow(n, join(o.path, "<<"))
		if base, ok := n.(*ast.MappingNode); ok {
			o.merge(base, depth+1)
		} else {
			o.wrong(n, join(o.path, "<<"), shown(n), "must be a mapping, or a list of mappings")
		}
	}
}

// suggestion helps who wrote an unknown name.
func suggestion(name string, names []string) string {
	plain := strings.NewReplacer("_", "", "-", "", " ", "")
	for _, n := range names {
		if strings.EqualFold(plain.Replace(n), plain.Replace(name)) {
			return "write " + n
		}
	}
	return "the fields are " + strings.Join(names, ", ")
}

// join appends a field to a path.
func join(path, field string) string { return strings.TrimPrefix(path+"."+field, ".") }
