package policyfile

import (
	"strconv"
	"strings"

	"github.com/goccy/go-yaml/token"

	"github.com/tokenbucket-go/ratelimit/core"
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
// policies[0].overrides.header:…[1].capacity.
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
	for _, kind := range codes {
		for _, begins := range kind.reasons {
			if strings.HasPrefix(e.Reason, begins) {
				return kind.code
			}
		}
	}
	if code := (&core.ConfigError{Field: e.Field, Reason: e.Reason}).Code(); code != "" {
		return code
	}
	return "RL208" // the file holds something else than policies
}

// codes are the codes of mistakes that only files have, by how the reason
// begins. Core knows the others.
var codes = []struct {
	code    string
	reasons []string
}{
	{"RL202", []string{"invalid YAML", "the file is not UTF-8", "the file is empty"}},
	{"RL203", []string{"is a tag", "begins a complex key", "begins a second document", "is part of a name", "has a tab"}},
	{"RL204", []string{"the file is too large", "is one token too many", "is nested too deep", "aliases expand", "too many mistakes"}},
	{"RL205", []string{"refers to nothing", "must be a mapping, or a list of mappings"}},
}

func at(t *token.Token, value, reason string) *Error {
	return &Error{Line: max(1, t.Position.Line), Column: max(1, t.Position.Column), Value: printable.Text(value), Reason: printable.Text(reason)}
}
