package policyfile

import (
	"strconv"
	"strings"

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
	place := "line "
	if e.File != "" {
		place = e.File + ":"
	}
	place += strconv.Itoa(e.Line)
	if e.Column > 0 {
		place += ":" + strconv.Itoa(e.Column)
	}
	if e.Field != "" {
		place += ": " + e.Field
	}
	return place + ": " + strings.TrimPrefix(e.Value+" "+e.Reason, " ")
}

// at returns a mistake at a token.
func at(t *token.Token, value, reason string) *Error {
	return &Error{Line: max(1, t.Position.Line), Column: max(1, t.Position.Column), Value: value, Reason: reason}
}
