package policyfile

import (
	"cmp"
	"errors"
	"slices"
	"strconv"

	"github.com/goccy/go-yaml/ast"
	"github.com/goccy/go-yaml/token"
)

// Error is one mistake in a policy file. Readers report all mistakes at once, joined with [errors.Join], from the top
// of the file to its end; [errors.As] finds the first. Of mistakes in syntax they report the first alone.
type Error struct {
	File   string // as given to LoadFile; else empty
	Line   int    // from 1
	Column int    // in characters from 1; 0 where only the line is known
	Field  string // the path as it is written in the file, such as policies[2].limits[1].capacity, or empty
	Value  string // what is there, strings in quotes; empty where something is missing
	Reason string // what is wrong, and what to write instead
}

// Error gives the place as compilers do, so that editors can go there:
//
//	policies.yaml:7:19: policies[0].limits[1].capacity: -1 must be from 1 to 999999999999999 tokens
func (e *Error) Error() string {
	s := "line "
	if e.File != "" {
		s = e.File + ":"
	}
	s += strconv.Itoa(e.Line)
	if e.Column > 0 {
		s += ":" + strconv.Itoa(e.Column)
	}
	s += ": "
	if e.Field != "" {
		s += e.Field + ": "
	}
	if e.Value != "" {
		s += e.Value + " "
	}
	return s + e.Reason
}

// maxErrors keeps the report readable.
const maxErrors = 100

// wrong reports a mistake in n, up to the bound.
func (d *document) wrong(n ast.Node, path, value, reason string) {
	if d.full {
		return
	}
	d.wrongs[n] = true
	if m, ok := n.(*ast.MappingNode); ok && !m.IsFlowStyle && len(m.Values) > 0 {
		n = m.Values[0].Key
	}
	e := at(n.GetToken(), value, reason)
	e.File, e.Field = d.file, path
	if d.full = len(d.errs) == maxErrors; d.full {
		e.Field, e.Value, e.Reason = "", "", "too many mistakes: only the first 100 are reported"
	}
	d.errs = append(d.errs, e)
}

// at returns a mistake at a token.
func at(t *token.Token, value, reason string) *Error {
	return &Error{Line: max(1, t.Position.Line), Column: max(1, t.Position.Column), Value: value, Reason: reason}
}

// mistakes joins all in the order of the file. The remark that there are more stays last.
func (d *document) mistakes() error {
	slices.SortStableFunc(d.errs[:min(len(d.errs), maxErrors)], func(x, y error) int {
		a, b := x.(*Error), y.(*Error)
		return cmp.Or(cmp.Compare(a.Line, b.Line), cmp.Compare(a.Column, b.Column))
	})
	return errors.Join(d.errs...)
}
