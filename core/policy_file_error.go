package core

import "strconv"

// PolicyFileError is one mistake in policies read from YAML or JSON. Readers report all of them at once,
// joined with [errors.Join]; [errors.As] finds the first.
type PolicyFileError struct {
	File   string // as given to LoadPoliciesFile; else empty
	Line   int    // from 1
	Column int    // in characters from 1; 0 where only the line is known
	Field  string // the path as it is written in the file, such as policies[2].limits[1].capacity, or empty
	Value  string // what is there, strings in quotes; empty where something is missing
	Reason string // what must be there
}

// Error tells the place as compilers do, so that editors can go there:
//
//	policies.yaml:7:19: policies[0].limits[1].capacity: -1 must be from 1 to 999999999999999 tokens
func (e *PolicyFileError) Error() string {
	place := ":" + strconv.Itoa(e.Line)
	if e.Column > 0 {
		place += ":" + strconv.Itoa(e.Column)
	}
	if e.File == "" {
		place = "line " + place[1:]
	} else {
		place = e.File + place
	}
	s := place + ": "
	if e.Field != "" {
		s += e.Field + ": "
	}
	if e.Value != "" {
		s += e.Value + " "
	}
	return s + e.Reason
}
