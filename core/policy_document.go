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

// all joins the mistakes, from the file's top to its end.
func (d *document) all() error {
	told := d.errs[:min(len(d.errs), maxPolicyErrors)] // what follows is the remark that there are more
	slices.SortStableFunc(told, func(x, y error) int {
		a, b := x.(*PolicyFileError), y.(*PolicyFileError)
		return cmp.Or(cmp.Compare(a.Line, b.Line), cmp.Compare(a.Column, b.Column))
	})
	return errors.Join(d.errs...)
}
