package core

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"io"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v3"
)

const (
	// maxPolicyFile bounds what is read: some ten thousand policies.
	maxPolicyFile = 1 << 20
	// maxPolicyNodes bounds what aliases can make of it.
	maxPolicyNodes = 1 << 20
	// maxMerges bounds how deep merge keys can nest.
	maxMerges = 20
	// maxPolicyErrors keeps the report readable.
	maxPolicyErrors = 100
)

// document reads YAML and gathers its mistakes with their places.
type document struct {
	file  string
	errs  []error
	nodes int  // visited so far, those behind aliases each time
	full  bool // nothing more is read: a bound was reached
}

// wrong reports a mistake at n.
func (d *document) wrong(n *yaml.Node, field, value, reason string) {
	d.report(&PolicyFileError{Line: n.Line, Column: n.Column, Field: field, Value: value, Reason: reason})
}

func (d *document) report(e *PolicyFileError) {
	switch {
	case d.full:
		return
	case len(d.errs) == maxPolicyErrors:
		d.full = true
		e = &PolicyFileError{Line: e.Line, Column: e.Column, Reason: "is where the " + strconv.Itoa(maxPolicyErrors+1) + "th mistake is: the rest is not told"}
	}
	e.File = d.file
	d.errs = append(d.errs, e)
}

// parse returns the content of the only document in data, or nil.
func (d *document) parse(data []byte) *yaml.Node {
	if len(data) > maxPolicyFile {
		d.report(&PolicyFileError{Line: 1, Reason: "the file is too large: at most 1 MiB is read"})
		return nil
	}
	decoder := yaml.NewDecoder(bytes.NewReader(unescapeSlashes(data)))
	var first, second yaml.Node
	err := decoder.Decode(&first)
	if err == io.EOF || err == nil && isNull(first.Content[0]) {
		d.report(&PolicyFileError{Line: 1, Reason: "the file is empty"})
		return nil
	}
	if err == nil {
		switch err = decoder.Decode(&second); err {
		case nil:
			d.wrong(&second, "", "", "a second document begins: put all into one")
			return nil
		case io.EOF:
			err = nil
		}
	}
	if err != nil {
		d.report(syntaxMistake(err, data))
		return nil
	}
	return first.Content[0]
}

// unescapeSlashes makes \/ of JSON a slash: some writers escape it, and it is no escape of YAML 1.1.
func unescapeSlashes(data []byte) []byte {
	if !bytes.Contains(data, []byte(`\/`)) || !json.Valid(data) {
		return data
	}
	plain := make([]byte, 0, len(data))
	for i := 0; i < len(data); i++ {
		if data[i] == '\\' {
			if i++; data[i] != '/' {
				plain = append(plain, '\\')
			}
		}
		plain = append(plain, data[i])
	}
	return plain
}

var (
	yamlLine      = regexp.MustCompile(`^line (\d+): `)
	unknownAnchor = regexp.MustCompile(`^unknown anchor '(.*)' referenced$`)
	// fromParser are the messages whose lines the yaml package counts from 0; the others from 1.
	fromParser = regexp.MustCompile(`^did not find expected ('|key|node|<)|directive|YAML document|tag handle`)
)

// syntaxMistake is an error of the yaml package, whose messages hold the line.
func syntaxMistake(err error, data []byte) *PolicyFileError {
	e := &PolicyFileError{Line: 1}
	message := strings.TrimPrefix(err.Error(), "yaml: ")
	if m := yamlLine.FindStringSubmatch(message); m != nil {
		message = message[len(m[0]):]
		e.Line, _ = strconv.Atoi(m[1])
		if fromParser.MatchString(message) {
			e.Line++
		}
	}
	lines := bytes.Split(bytes.TrimSuffix(data, []byte("\n")), []byte("\n"))
	e.Line = max(1, min(e.Line, len(lines)))
	if m := unknownAnchor.FindStringSubmatch(message); m != nil {
		alias := []byte("*" + m[1])
		if i := slices.IndexFunc(lines, func(l []byte) bool { return bytes.Contains(l, alias) }); i >= 0 {
			e.Line, e.Column = i+1, bytes.Index(lines[i], alias)+1
		}
	}
	line := lines[e.Line-1]
	if indent := line[:len(line)-len(bytes.TrimLeft(line, " \t"))]; bytes.Contains(indent, []byte("\t")) && strings.Contains(message, "cannot start any token") {
		e.Column = bytes.IndexByte(indent, '\t') + 1
		message = "a tab can't indent YAML: use spaces"
	}
	e.Reason = "is not YAML: " + message
	return e
}

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
		d.wrong(n, path, shown(n), want)
		return "", false
	}
	return n.Value, true
}

// text returns the string that n is, or false.
func (d *document) text(n *yaml.Node, path, want string) (string, bool) {
	if n.Kind == yaml.ScalarNode && !isNull(n) && n.ShortTag() != "!!str" {
		want += ": put it in quotes"
	}
	return d.scalar(n, path, want, "!!str")
}

// number returns the number that n is, read by one of parseNumber and parseTokens, or false.
func number[T any](d *document, n *yaml.Node, path string, parse func(string) (T, string)) (v T, ok bool) {
	s, ok := d.scalar(n, path, "must be a number", "!!int", "!!float")
	if !ok {
		return v, false
	}
	v, reason := parse(s)
	if reason != "" {
		d.wrong(n, path, shown(n), reason)
	}
	return v, reason == ""
}

// word returns what n means among the words of a choice, or false.
func word[T any](d *document, n *yaml.Node, path string, words []string, values []T) (v T, ok bool) {
	want := "must be " + strings.Join(words[:len(words)-1], ", ") + " or " + words[len(words)-1]
	s, ok := d.scalar(n, path, want, "!!str")
	if !ok {
		return v, false
	}
	i := slices.Index(words, strings.ToLower(s))
	if i < 0 {
		d.wrong(n, path, shown(n), want)
		return v, false
	}
	return values[i], true
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

// all joins the mistakes, from the file's top to its end.
func (d *document) all() error {
	told := d.errs[:min(len(d.errs), maxPolicyErrors)] // what follows is the remark that there are more
	slices.SortStableFunc(told, func(x, y error) int {
		a, b := x.(*PolicyFileError), y.(*PolicyFileError)
		return cmp.Or(cmp.Compare(a.Line, b.Line), cmp.Compare(a.Column, b.Column))
	})
	return errors.Join(d.errs...)
}
