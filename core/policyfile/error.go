package policyfile

import (
	"cmp"
	"strconv"
	"strings"

	"github.com/goccy/go-yaml/token"

	"github.com/tokenbucket-go/ratelimit/core/internal/mistake"
	"github.com/tokenbucket-go/ratelimit/core/internal/printable"
)

// Error is one mistake in a policy file. Readers report all mistakes at once,
// joined with [errors.Join], from the top of the file to its end; [errors.As]
// finds the first. Of mistakes in syntax they report only the first.
type Error struct {
	File   string // as given to LoadFile; else empty
	Line   int    // from 1
	Column int    // in characters from 1; 0 where only the line is known
	Field  string // the path as it is written in the file, such as policies[2].limits[1].capacity, or empty
	Value  string // what is there, strings in quotes; empty where something is missing
	Reason string // what is wrong, and what to write instead
}

// Error gives the place as compilers do, so that editors can go there. Of the
// keys of overrides, which can be API keys, it shows only their kinds, such as
// policies[0].overrides.x-api-key:…[1].capacity.
//
//	policies.yaml:7:19: policies[0].limits[1].capacity: -1 must be from 1 to 999999999999999 tokens (RL102)
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
		place += ": " + mistake.Hidden(e.Field)
	}
	return printable.Text(place + ": " + strings.TrimPrefix(e.Value+" "+e.Reason, " ") + " (" + e.Code() + ")")
}

// Code returns the code of this kind of mistake, such as RL102. docs/errors.md
// has a section for each code.
func (e *Error) Code() string {
	return cmp.Or(mistake.New(e.Field, nil, e.Reason).Code(), "RL208") // the file holds something else than policies
}

func at(t *token.Token, value, reason string) *Error {
	return &Error{Line: max(1, t.Position.Line), Column: max(1, t.Position.Column), Value: printable.Text(value), Reason: printable.Text(reason)}
}
