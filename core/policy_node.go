package core

import (
	"slices"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v3"
)

// maxMerges bounds how deep merge keys can nest.
const maxMerges = 20

// follow returns what n stands for.
func (d *document) follow(n *yaml.Node) *yaml.Node {
	for range maxMerges {
		if n.Kind != yaml.AliasNode {
			break
		}
		n = n.Alias
	}
	return n
}

// visit counts the children of n and reports whether they may be read.
func (d *document) visit(n *yaml.Node) bool {
	if d.nodes += 1 + len(n.Content); d.nodes > maxPolicyNodes && !d.full {
		d.wrong(n, "", "", "is where aliases have made this too much: write less")
		d.full = true
	}
	return !d.full
}

// mapping returns the fields of n by name, merged ones among them, or false. what is n in words.
func (d *document) mapping(n *yaml.Node, path, what string, names []string) (map[string]*yaml.Node, bool) {
	if n.Kind != yaml.MappingNode {
		d.wrong(n, path, shown(n), "must be "+what+", a mapping with the fields "+strings.Join(names, ", "))
		return nil, false
	}
	fields := make(map[string]*yaml.Node)
	d.merge(fields, n, path, what, names, 0)
	return fields, true
}

// merge adds the fields of n that are not there yet.
func (d *document) merge(fields map[string]*yaml.Node, n *yaml.Node, path, what string, names []string, depth int) {
	if !d.visit(n) {
		return
	}
	if depth > maxMerges {
		d.wrong(n, path, "", "is merged too deep")
		return
	}
	own := make(map[string]int) // to the line
	var bases []*yaml.Node
	for i := 0; i+1 < len(n.Content); i += 2 {
		key, value := d.follow(n.Content[i]), d.follow(n.Content[i+1])
		if key.ShortTag() == "!!merge" {
			if bases = append(bases, value); value.Kind == yaml.SequenceNode {
				bases = append(bases[:len(bases)-1], value.Content...)
			}
			continue
		}
		name := key.Value
		if first, twice := own[name]; twice && key.Kind == yaml.ScalarNode {
			d.wrong(key, join(path, clip(name, 80)), "", "is given a second time: first on line "+strconv.Itoa(first))
			continue
		}
		own[name] = key.Line
		if key.Kind != yaml.ScalarNode || !slices.Contains(names, name) {
			d.wrong(key, path, shown(key), "is not a field of "+what+suggestion(name, names))
			continue
		}
		if _, taken := fields[name]; !taken {
			fields[name] = value
		}
	}
	for _, base := range bases {
		if base = d.follow(base); base.Kind != yaml.MappingNode {
			d.wrong(base, join(path, "<<"), shown(base), "must be a mapping, or a list of mappings")
			continue
		}
		d.merge(fields, base, path, what, names, depth+1)
	}
}

// suggestion helps who wrote an unknown name.
func suggestion(name string, names []string) string {
	plain := strings.NewReplacer("_", "", "-", "", " ", "")
	for _, n := range names {
		if strings.EqualFold(plain.Replace(n), plain.Replace(name)) {
			return ": write " + n
		}
	}
	return ": the fields are " + strings.Join(names, ", ")
}

// list returns the items of n, at least one, or nil.
func (d *document) list(n *yaml.Node, path, what string) []*yaml.Node {
	switch {
	case n.Kind != yaml.SequenceNode:
		d.wrong(n, path, shown(n), "must be a list of "+what)
		return nil
	case len(n.Content) == 0:
		d.wrong(n, path, "", "is an empty list: at least one is required")
		return nil
	case !d.visit(n):
		return nil
	}
	items := make([]*yaml.Node, len(n.Content))
	for i, item := range n.Content {
		items[i] = d.follow(item)
	}
	return items
}

// scalar returns the text of n if it has one of the tags, or false.
func (d *document) scalar(n *yaml.Node, path, want string, tags ...string) (string, bool) {
	if n.Kind != yaml.ScalarNode || !slices.Contains(tags, n.ShortTag()) {
		if n.Style&yaml.TaggedStyle != 0 {
			want += ": leave out the tag " + clip(n.Tag, 80)
		}
		d.wrong(n, path, shown(n), want)
		return "", false
	}
	return n.Value, true
}

// text returns the string that n is, or false.
func (d *document) text(n *yaml.Node, path, want string) (string, bool) {
	if n.Kind == yaml.ScalarNode && !isNull(n) && n.ShortTag() != "!!str" && n.Style&yaml.TaggedStyle == 0 {
		want += ": put it in quotes"
	}
	return d.scalar(n, path, want, "!!str")
}

// number returns the number that n is, read by one of parseNumber and parseTokens, or false.
func number[T any](d *document, n *yaml.Node, path string, parse func(string) (T, string)) (v T, ok bool) {
	// YAML calls what it can't hold a string, such as 1e999, so numbers are known by how they are written.
	text, written := shown(n), n.Kind == yaml.ScalarNode && isNumber(n.Value)
	if written && n.Style == 0 {
		text = clip(n.Value, 80)
	} else {
		want := "must be a number"
		if written && n.Style&(yaml.SingleQuotedStyle|yaml.DoubleQuotedStyle) != 0 {
			want += " without quotes"
		}
		if _, ok = d.scalar(n, path, want, "!!int", "!!float"); !ok {
			return v, false
		}
	}
	v, reason := parse(n.Value)
	if reason != "" {
		d.wrong(n, path, text, reason)
	}
	return v, reason == ""
}

// word is what files call a value.
type word[T any] struct {
	text  string
	value T
}

// meaning returns what the text means, in capitals or not, or false.
func meaning[T any](words []word[T], text string) (v T, ok bool) {
	text = strings.ToLower(text)
	for _, w := range words {
		if w.text == text {
			return w.value, true
		}
	}
	return v, false
}

// choose returns what n means among the words of a choice, or false.
func choose[T any](d *document, n *yaml.Node, path string, words []word[T]) (v T, ok bool) {
	want := "must be " + words[0].text
	for _, w := range words[1 : len(words)-1] {
		want += ", " + w.text
	}
	want += " or " + words[len(words)-1].text
	s, ok := d.scalar(n, path, want, "!!str")
	if !ok {
		return v, false
	}
	if v, ok = meaning(words, s); !ok {
		d.wrong(n, path, shown(n), want)
	}
	return v, ok
}

func isNull(n *yaml.Node) bool { return n.Kind == yaml.ScalarNode && n.ShortTag() == "!!null" }

// shown is n as messages tell it.
func shown(n *yaml.Node) string {
	switch {
	case n.Kind == yaml.MappingNode:
		return "a mapping"
	case n.Kind == yaml.SequenceNode:
		return "a list"
	case n.Kind != yaml.ScalarNode:
		return "an alias"
	case isNull(n):
		return "nothing"
	case n.ShortTag() == "!!str":
		return strconv.Quote(clip(n.Value, 80))
	}
	return clip(n.Value, 80)
}

// join appends a field to a path.
func join(path, field string) string {
	if path == "" {
		return field
	}
	return path + "." + field
}
