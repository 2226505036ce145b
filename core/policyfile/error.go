package policyfile

import (
	"strconv"

	"github.com/tokenbucket-go/ratelimit/core/internal/mistake"
	"github.com/tokenbucket-go/ratelimit/core/internal/printable"
)

// Error is one mistake in a policy file. Readers join all that they report with
// [errors.Join], from the top of the file to its end; [errors.As] finds the
// first.
type Error struct {
	File   string // as given to LoadFile; else empty
	Line   int    // from 1
	Column int    // in characters from 1; 0 where only the line is known
	Field  string // the path in the file, such as policies[2].limits[1], or empty
	Reason string // what is wrong, and what to write instead
	Source string // the line of the file with a mark below the mistake, or empty

	code string
}

// Error gives the place as compilers do, so that editors can go there, and then
// the line of the file. Keys of overrides, which can be API keys, and text that
// is none of a policy are shown as …:
//
//	policies.yaml:7:9: policies[1].limits[0]: burst 0 must be from 1 to 999999999999999 tokens (RL102)
//	>  7 |       - 60/min burst 0
//	               ^
func (e *Error) Error() string {
	text := "line "
	if e.File != "" {
		text = e.File + ":"
	}
	text += strconv.Itoa(e.Line)
	if e.Column > 0 {
		text += ":" + strconv.Itoa(e.Column)
	}
	if e.Field != "" {
		text += ": " + mistake.Hidden(e.Field)
	}
	text = printable.Text(text + ": " + e.Reason + " (" + e.code + ")")
	if e.Source != "" {
		text += "\n" + e.Source
	}
	return text
}

// Code returns the code of this kind of mistake, such as RL102. docs/errors.md
// has a section for each code.
func (e *Error) Code() string { return e.code }
