package core

import (
	"bytes"
	"cmp"
	"errors"
	"io"
	"slices"
	"strconv"

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
		e = &PolicyFileError{Line: e.Line, Column: e.Column, Reason: "is where mistake " + strconv.Itoa(maxPolicyErrors+1) + " is: the rest is not told"}
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
	data = bytes.TrimPrefix(data, []byte("\ufeff"))
	if root := jsonNodes(data); root != nil {
		if isNull(root) {
			d.report(&PolicyFileError{Line: 1, Reason: "the file is empty"})
			return nil
		}
		return root
	}
	if e := foldedLine(data); e != nil {
		d.report(e)
		return nil
	}
	decoder := yaml.NewDecoder(bytes.NewReader(asYAML11(data)))
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

// all joins the mistakes, from the file's top to its end.
func (d *document) all() error {
	told := d.errs[:min(len(d.errs), maxPolicyErrors)] // what follows is the remark that there are more
	slices.SortStableFunc(told, func(x, y error) int {
		a, b := x.(*PolicyFileError), y.(*PolicyFileError)
		return cmp.Or(cmp.Compare(a.Line, b.Line), cmp.Compare(a.Column, b.Column))
	})
	return errors.Join(d.errs...)
}
